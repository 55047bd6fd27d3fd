// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a check. A node stores and sends the results of a check for as long as it runs.
const (
	minCheckInterval = time.Second
	minCheckTimeout  = time.Second
	maxCheckBody     = 64 << 10
	maxCheckCount    = 1000
)

var (
	httpMethod = regexp.MustCompile(`^[A-Za-z]+$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// validate checks a check of a service. Those of provider nomad are rejected in the words
// of the reference, which has no line of its own for the check.
func (c *ServiceCheck) validate(p *ValidationError, s *Service, ports map[string]bool, group bool) {
	var part ValidationError
	kind := strings.ToLower(c.Type)
	if s.Provider == "nomad" {
		c.validateTypeOfNomad(&part, kind)
	} else {
		c.validateTypeOfConsul(&part, kind)
	}
	switch {
	case kind != "script":
		c.validatePort(&part, s, ports)
	case s.Provider != "nomad": // else the type is what is wrong
		c.validateScript(&part, s, group)
	}
	if kind == "http" {
		c.validateRequest(&part)
	}
	c.validateStatus(&part)
	if s.Provider == "nomad" {
		*p = append(*p, part...)
		return
	}
	p.under("check \""+c.Name+"\" invalid", part)
}

// validateTypeOfNomad checks the type for provider nomad. It accepts grpc, which the
// reference does not.
func (c *ServiceCheck) validateTypeOfNomad(p *ValidationError, kind string) {
	if kind != "http" && kind != "tcp" && kind != "grpc" {
		p.addf("invalid check type (%q), must be one of tcp, http", c.Type)
	}
	if c.Interval < minCheckInterval {
		p.addf("missing required value interval. Interval cannot be less than %v", minCheckInterval)
	}
	if c.Timeout < minCheckTimeout {
		p.addf("missing required value timeout. Timeout cannot be less than %v", minCheckTimeout)
	}
}

func (c *ServiceCheck) validateTypeOfConsul(p *ValidationError, kind string) {
	switch kind {
	case "grpc", "http", "tcp", "script":
	default:
		p.addf("Check type must be one of \"http\", \"tcp\", \"grpc\" or \"script\", not %q", c.Type)
	}
	if c.Interval < minCheckInterval {
		p.addf("interval (%v) cannot be lower than %v", c.Interval, minCheckInterval)
	}
	if c.Timeout < minCheckTimeout {
		p.addf("timeout (%v) cannot be lower than %v", c.Timeout, minCheckTimeout)
	}
}

func (c *ServiceCheck) validateScript(p *ValidationError, s *Service, group bool) {
	if c.Command == "" {
		p.addf("Check type requires command")
	}
	if group && c.TaskName == "" && s.TaskName == "" {
		p.addf("a script check runs inside a task; set task in the check, or in its service")
	}
}

func (c *ServiceCheck) validatePort(p *ValidationError, s *Service, ports map[string]bool) {
	switch c.AddressMode {
	case "", "auto", "host", "driver", "alloc", "alloc_ipv6":
	default:
		p.addf("check address_mode must be %q, %q, %q or %q; not %q", "alloc", "alloc_ipv6", "driver", "host", c.AddressMode)
	}
	if c.PortLabel == "" && s.PortLabel == "" {
		p.addf("check requires a port but neither check nor service %+q have a port", s.Name)
	}
	if c.PortLabel == "" || ports[c.PortLabel] || strings.Contains(c.PortLabel, "${") {
		return
	}
	if n, err := strconv.Atoi(c.PortLabel); err != nil || n < 1 || n > 65535 {
		p.addf("port label %q of a check of service %q is not defined by a network block of the group", c.PortLabel, s.Name)
	}
}

// validateRequest checks what an http check sends.
func (c *ServiceCheck) validateRequest(p *ValidationError) {
	switch strings.ToLower(c.Protocol) {
	case "", "http", "https":
	default:
		if !strings.Contains(c.Protocol, "${") {
			p.addf("protocol of an http check must be http or https, not %q", c.Protocol)
		}
	}
	if c.Path == "" {
		p.addf("http type requires http path")
	}
	if !strings.Contains(c.Path, "${") {
		if u, err := url.Parse(c.Path); err != nil {
			p.addf("path of an http check: %v", err)
		} else if u.Scheme != "" || u.Host != "" {
			p.addf("path of an http check must be relative, not %q: the address follows from port and address_mode", c.Path)
		}
	}
	if c.Method != "" && !strings.Contains(c.Method, "${") && !httpMethod.MatchString(c.Method) {
		p.addf("method of an http check: %q is no HTTP method", c.Method)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		if !headerName.MatchString(name) {
			p.addf("header of an http check: %q is no name of a header", name)
		}
		for _, v := range c.Header[name] {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				p.addf("header %s of an http check: the value %q has control characters, such as an end of line, which no HTTP client sends", name, v)
			}
		}
	}
	if len(c.Body) > maxCheckBody {
		p.addf("body of an http check has %d bytes; at most %d are allowed", len(c.Body), maxCheckBody)
	}
}

// validateStatus checks the fields that turn results into a status.
func (c *ServiceCheck) validateStatus(p *ValidationError) {
	switch strings.ToLower(c.InitialStatus) {
	case "", "passing", "warning", "critical":
	default:
		p.addf("initial_status must be \"passing\", \"warning\" or \"critical\", not %q", c.InitialStatus)
	}
	switch c.OnUpdate {
	case "", OnUpdateRequireHealthy, OnUpdateIgnoreWarn, OnUpdateIgnore:
	default:
		p.addf("on_update must be %q, %q or %q, not %q", OnUpdateRequireHealthy, OnUpdateIgnoreWarn, OnUpdateIgnore, c.OnUpdate)
	}
	for _, x := range []struct {
		name string
		n    int
	}{
		{"success_before_passing", c.SuccessBeforePassing}, {"failures_before_critical", c.FailuresBeforeCritical}, {"failures_before_warning", c.FailuresBeforeWarning},
	} {
		if x.n < 0 || x.n > maxCheckCount {
			p.addf("%s must be from 0 to %d, not %d", x.name, maxCheckCount, x.n)
		}
	}
	if r := c.CheckRestart; r != nil && (r.Limit < 0 || r.Grace < 0) {
		p.addf("check_restart limit and grace must not be negative")
	}
}
