// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// providerName matches the names that the host of plugins lets a registry have.
var providerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

var serviceName = regexp.MustCompile(`^(?i:[a-z0-9]|[a-z0-9][a-z0-9\-]{0,61}[a-z0-9])$`)

// validateServices checks the services of a group, or of one of its tasks.
func (tg *TaskGroup) validateServices(p *ValidationError, services []*Service, ports map[string]bool, group bool) {
	var all ValidationError
	type offer struct{ provider, cluster, name, port string }
	seen := map[offer]bool{}
	for i, s := range services {
		if s == nil {
			all.addf("Service %d is null; remove it", i+1)
			continue
		}
		var part ValidationError
		s.validate(&part, ports, group)
		tg.validatePlaceOf(&part, s)
		one := offer{cmp.Or(s.Provider, "consul"), cmp.Or(s.Cluster, "default"), s.Name, s.PortLabel}
		if seen[one] { // they would have one id, so nobody could find the second
			part.addf("service %q is duplicate: another of the same name and port; merge their tags and checks, or give it another port or name", s.Name)
		}
		seen[one] = true
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

// maxServiceWeight is the largest weight that an answer of DNS has room for.
const maxServiceWeight = 65535

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
		if n, err := strconv.Atoi(s.PortLabel); err != nil {
			p.addf("port label %q is not defined by a network block of the group", s.PortLabel)
		} else if n < 1 || n > 65535 {
			p.addf("port %d is no number of a port; use 1 to 65535, or the label of a port of the group", n)
		}
	}
	switch s.OnUpdate {
	case "", OnUpdateRequireHealthy, OnUpdateIgnoreWarn, OnUpdateIgnore:
	default:
		p.addf("Service on_update must be %q, %q or %q; not %q", OnUpdateRequireHealthy, OnUpdateIgnoreWarn, OnUpdateIgnore, s.OnUpdate)
	}
	if w := s.Weights; w != nil && (w.Passing < 0 || w.Passing > maxServiceWeight || w.Warning < 0 || w.Warning > maxServiceWeight) {
		p.addf("weights of a service must be from 0 to %d, not %d and %d", maxServiceWeight, w.Passing, w.Warning)
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

// validatePlaceOf checks that the group has the tasks and the network that a service and its
// checks refer to.
func (tg *TaskGroup) validatePlaceOf(p *ValidationError, s *Service) {
	task := func(of, name string) {
		if name != "" && !slices.ContainsFunc(tg.Tasks, func(t *Task) bool { return t != nil && t.Name == name }) {
			p.addf("%s refers to task %q, which the group does not have", of, name)
		}
	}
	task("service", s.TaskName)
	for _, c := range s.Checks {
		if c != nil {
			task("check "+strconv.Quote(c.Name), c.TaskName)
		}
	}
	if len(tg.Networks) > 0 && tg.Networks[0] != nil && tg.Networks[0].Mode != "" && tg.Networks[0].Mode != "host" {
		return
	}
	const how = "%s has address_mode %q, but the group has no network of its own; give it a network with mode = \"bridge\" or \"cni/NAME\", or use another address_mode"
	own := func(mode string) bool { return mode == "alloc" || mode == "alloc_ipv6" }
	if own(s.AddressMode) {
		p.addf(how, "service", s.AddressMode)
	}
	for _, c := range s.Checks {
		if c != nil && own(c.AddressMode) {
			p.addf(how, "check "+strconv.Quote(c.Name), c.AddressMode)
		}
	}
}
