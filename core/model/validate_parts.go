// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"
)

func validateConstraints(p *ValidationError, cs []*Constraint) {
	for i, c := range cs {
		if c == nil {
			p.addf("Constraint %d is null; remove it", i+1)
			continue
		}
		var part ValidationError
		validateComparison(&part, "Constraint", c.LTarget, c.RTarget, c.Operand)
		p.under("Constraint "+strconv.Itoa(i+1)+" validation failed", part)
	}
}

func validateAffinities(p *ValidationError, as []*Affinity) {
	for i, a := range as {
		if a == nil {
			p.addf("Affinity %d is null; remove it", i+1)
			continue
		}
		var part ValidationError
		if a.Operand == ConstraintDistinctHosts || a.Operand == ConstraintDistinctProperty {
			part.addf("Unknown affinity operator %q", a.Operand)
		} else {
			validateComparison(&part, "Affinity", a.LTarget, a.RTarget, a.Operand)
		}
		if a.Weight == 0 {
			part.addf("Affinity weight cannot be zero")
		}
		if a.Weight < -100 || a.Weight > 100 {
			part.addf("Affinity weight must be within the range [-100,100]")
		}
		p.under("Affinity "+strconv.Itoa(i+1)+" validation failed", part)
	}
}

// validateComparison checks the operator and operands of constraints and affinities.
func validateComparison(p *ValidationError, what, left, right, operand string) {
	needsLeft := true
	switch operand {
	case "":
		p.addf("Missing %s operand", strings.ToLower(what))
	case "=", "==", "is", "!=", "not", "<", "<=", ">", ">=", ConstraintVersion, ConstraintSemver:
		if right == "" && (operand == ConstraintVersion || operand == ConstraintSemver) {
			p.addf("Operator %q requires an RTarget", operand)
		} else if operand == ConstraintVersion || operand == ConstraintSemver {
			validateVersions(p, right)
		}
		if right == "" && (operand[0] == '<' || operand[0] == '>') {
			p.addf("Operator %q requires an RTarget", operand)
		}
	case ConstraintRegex:
		if _, err := regexp.Compile(right); err != nil {
			p.addf("Regular expression failed to compile: %w", err)
		}
	case ConstraintSetContains, ConstraintSetContainsAll, ConstraintSetContainsAny:
		if right == "" {
			p.addf("Set contains %s requires an RTarget", strings.ToLower(what))
		}
	case ConstraintAttributeIsSet, ConstraintAttributeIsNotSet:
		if right != "" {
			p.addf("Operator %q does not support an RTarget", operand)
		}
	case ConstraintDistinctHosts:
		needsLeft = false
		if _, err := strconv.ParseBool(right); right != "" && err != nil {
			p.addf("distinct_hosts must be true or false, not %q", right)
		}
	case ConstraintDistinctProperty:
		if n, err := strconv.ParseUint(right, 10, 64); right != "" && (err != nil || n == 0) {
			p.addf("Distinct Property must have an allowed count of 1 or greater: %q", right)
		}
	default:
		p.addf("Unknown %s type %q", strings.ToLower(what), operand)
	}
	if needsLeft && left == "" {
		p.addf("No LTarget provided but is required by %s", strings.ToLower(what))
	}
}

// validateVersions checks the version constraints. A value with a variable has its text
// only on a node.
func validateVersions(p *ValidationError, want string) {
	if strings.Contains(want, "${") {
		return
	}
	if _, err := version.NewConstraint(want); err != nil {
		p.addf("Version constraint %q cannot be read; write it as \">= 1.2, < 2.0\": %w", want, err)
	}
}

func validateSpreads(p *ValidationError, spreads []*Spread) {
	for i, s := range spreads {
		if s == nil {
			p.addf("Spread %d is null; remove it", i+1)
			continue
		}
		var part ValidationError
		if s.Attribute == "" {
			part.addf("Missing spread attribute")
		}
		if s.Weight <= 0 || s.Weight > 100 {
			part.addf("Spread block must have a positive weight from 0 to 100")
		}
		sum := 0
		seen := map[string]bool{}
		for _, target := range s.SpreadTarget {
			if seen[target.Value] {
				part.addf("Spread target value %q already defined", target.Value)
			}
			seen[target.Value] = true
			if target.Percent > 100 {
				part.addf("Spread target percentage for value %q must be between 0 and 100", target.Value)
			}
			sum += int(target.Percent)
		}
		if sum > 100 {
			part.addf("Sum of spread target percentages must not be greater than 100%%; got %d%%", sum)
		}
		p.under("Spread "+strconv.Itoa(i+1)+" validation failed", part)
	}
}

func validateNetworks(p *ValidationError, networks []*NetworkResource) {
	labels := map[string]bool{}
	static := map[string]string{}
	if len(networks) > 1 {
		p.addf("Only one network block is allowed per task group, but there are %d: a group has one network; move all ports into one block", len(networks))
	}
	for _, n := range networks {
		n.validateNames(p)
		if !validNetworkMode(n.Mode) {
			p.addf("Invalid network mode %q: use host, bridge, none or cni/NAME", n.Mode)
		}
		for _, ports := range [][]Port{n.ReservedPorts, n.DynamicPorts} {
			for _, port := range ports {
				validatePort(p, port, n.Mode)
				if labels[port.Label] {
					p.addf("Port label %s already in use", port.Label)
				}
				labels[port.Label] = true
			}
		}
		for _, port := range n.ReservedPorts {
			key := port.HostNetwork + " " + strconv.Itoa(port.Value)
			if other, ok := static[key]; ok && !port.IgnoreCollision {
				p.addf("Static port %d already reserved by %s", port.Value, other)
			}
			static[key] = port.Label
		}
	}
}

// hostnames matches what a host can be called: names of a label or more.
var hostnames = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

const maxHostname = 64 // bytes that Linux takes

// validateNames checks what a network block says besides its ports. What has ${...} is known
// on the node only.
func (n *NetworkResource) validateNames(p *ValidationError) {
	if h := n.Hostname; h != "" && !strings.Contains(h, "${") && (len(h) > maxHostname || !hostnames.MatchString(h)) {
		p.addf("hostname %q of the network is not a valid DNS name of at most %d letters, digits, '-', '_' and '.'", h, maxHostname)
	}
	if d := n.DNS; d != nil {
		for _, s := range d.Servers {
			if _, err := netip.ParseAddr(s); err != nil && !strings.Contains(s, "${") {
				p.addf("dns server %q of the network is not an IP address; names of servers cannot be looked up without a server", s)
			}
		}
		for _, s := range slices.Concat(d.Servers, d.Searches, d.Options) {
			if strings.ContainsAny(s, " \t\r\n\000") || s == "" {
				p.addf("dns entry %q of the network is empty or has white space; write each in a string of its own", s)
			}
		}
	}
	if n.CNI == nil || len(n.CNI.Args) == 0 {
		return
	}
	if n.Mode == "bridge" || n.Mode == "none" {
		p.addf("network %q takes no arguments; remove cni { args } from the group's network, or use mode \"cni/NAME\"", n.Mode)
	}
	for _, k := range slices.Sorted(maps.Keys(n.CNI.Args)) {
		if v := n.CNI.Args[k]; k == "" || strings.ContainsAny(k, "=;\n\000") || strings.ContainsAny(v, ";\n\000") {
			p.addf("cni { args }: %q = %q cannot be passed to CNI programs, which get KEY=VALUE separated by semicolons", k, v)
		}
	}
}

func validNetworkMode(mode string) bool {
	switch mode {
	case "", "host", "bridge", "none":
		return true
	}
	name, ok := strings.CutPrefix(mode, "cni/")
	return ok && name != "" && !strings.ContainsAny(name, `/\`+"\000")
}

func validatePort(p *ValidationError, port Port, mode string) {
	if port.Label == "" {
		p.addf("Port label must be set")
	}
	if strings.ContainsAny(port.Label, "= \n\000") {
		p.addf("Port label %q contains a character that an environment variable's name cannot have", port.Label)
	}
	if port.Value < 0 || port.Value > 65535 {
		p.addf("Port %s cannot be greater than 65535 or negative (got %d)", port.Label, port.Value)
	}
	switch {
	case port.To > 65535 || port.To < -1:
		p.addf("Port %q cannot be mapped to a port (%d) greater than 65535 or below -1", port.Label, port.To)
	case port.To != 0 && port.To != port.Value && mode == "none":
		p.addf("Port %q cannot be mapped without a network", port.Label)
	}
}
