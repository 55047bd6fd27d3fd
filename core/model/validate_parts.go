// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"regexp"
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
	for _, n := range networks {
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

// providerName matches the names that the host of plugins lets a registry have.
var providerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

var serviceName = regexp.MustCompile(`^(?i:[a-z0-9]|[a-z0-9][a-z0-9\-]{0,61}[a-z0-9])$`)

func validateServices(p *ValidationError, services []*Service, ports map[string]bool, group bool) {
	var all ValidationError
	for i, s := range services {
		if s == nil {
			all.addf("Service %d is null; remove it", i+1)
			continue
		}
		var part ValidationError
		s.validate(&part, ports, group)
		all.under("Service["+strconv.Itoa(i)+"] "+s.Name+" validation failed", part)
	}
	if group {
		p.under("Task group service validation failed", all)
	} else {
		*p = append(*p, all...)
	}
}

// maxServiceTags limits each list of tags and metadata of a service.
const maxServiceTags = 1000

func (s *Service) validate(p *ValidationError, ports map[string]bool, group bool) {
	if !strings.Contains(s.Name, "${") && !serviceName.MatchString(s.Name) {
		p.addf("Service name must be valid per RFC 1123 and can contain only alphanumeric characters or dashes and must be no longer than 63 characters")
	}
	if s.Provider != "" && !providerName.MatchString(s.Provider) {
		p.addf("Service provider must be %q, %q, or the name of a registry plugin (letters, digits, '.', '_' and '-', at most 64); not %q", "consul", "nomad", s.Provider)
	}
	switch s.AddressMode {
	case "", "auto", "host", "driver", "alloc", "alloc_ipv6":
	default:
		p.addf("Service address_mode must be %q, %q, %q or %q; not %q", "auto", "alloc", "host", "driver", s.AddressMode)
	}
	if s.PortLabel != "" && !ports[s.PortLabel] && !strings.Contains(s.PortLabel, "${") {
		if _, err := strconv.Atoi(s.PortLabel); err != nil {
			p.addf("port label %q is not defined by a network block of the group", s.PortLabel)
		}
	}
	for _, c := range s.Checks {
		c.validate(p, s, ports, group)
	}
	if n := max(len(s.Tags), len(s.CanaryTags), len(s.Meta), len(s.CanaryMeta)); n > maxServiceTags {
		p.addf("service %q has %d tags or pairs of metadata; at most %d are taken, since each instance has them", s.Name, n, maxServiceTags)
	}
	if s.Identity != nil {
		s.Identity.validateOfService(p, s.Name)
	}
}
