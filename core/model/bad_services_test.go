// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// TestServicesThatCannotWorkAreRefusedWithTheirCause has the bad input of issue G that can be
// known without a cluster.
func TestServicesThatCannotWorkAreRefusedWithTheirCause(t *testing.T) {
	check := func(change func(c *model.ServiceCheck)) func(*model.Task, *model.Service) {
		return func(_ *model.Task, s *model.Service) {
			c := &model.ServiceCheck{Name: "c", Type: "http", Path: "/", Interval: time.Second, Timeout: time.Second}
			change(c)
			s.Checks = append(s.Checks, c)
		}
	}
	for name, c := range map[string]struct {
		spoil func(*model.Task, *model.Service)
		want  string
	}{
		"a sound service":              {check(func(*model.ServiceCheck) {}), ""},
		"a name that is not a name":    {func(_ *model.Task, s *model.Service) { s.Name = "../web of\nmine" }, "RFC 1123"},
		"a name of 64 bytes":           {func(_ *model.Task, s *model.Service) { s.Name = strings.Repeat("a", 64) }, "63 characters"},
		"10,000 tags":                  {func(_ *model.Task, s *model.Service) { s.Tags = make([]string, 10_000) }, "at most 1000"},
		"10,000 canary tags":           {func(_ *model.Task, s *model.Service) { s.CanaryTags = make([]string, 10_000) }, "at most 1000"},
		"a port that does not exist":   {func(_ *model.Task, s *model.Service) { s.PortLabel = "nowhere" }, `port label "nowhere"`},
		"a port over the last":         {func(_ *model.Task, s *model.Service) { s.PortLabel = "99999" }, "port 99999 is no number of a port"},
		"a port below the first":       {func(_ *model.Task, s *model.Service) { s.PortLabel = "-1" }, "port -1 is no number of a port"},
		"an on_update that is none":    {func(_ *model.Task, s *model.Service) { s.OnUpdate = "sometimes" }, `on_update must be "require_healthy"`},
		"a weight below 0":             {func(_ *model.Task, s *model.Service) { s.Weights = &model.ServiceWeights{Warning: -1} }, "weights of a service must be from 0 to 65535"},
		"a weight that DNS cannot say": {func(_ *model.Task, s *model.Service) { s.Weights = &model.ServiceWeights{Passing: 65536} }, "weights of a service must be from 0 to 65535"},
		"twice": {func(k *model.Task, s *model.Service) {
			k.Services = append(k.Services, &model.Service{Name: s.Name, Provider: s.Provider, PortLabel: s.PortLabel, AddressMode: "driver"})
		}, `service "web" is duplicate`},
		"of one name at two ports": {func(k *model.Task, s *model.Service) {
			k.Services = append(k.Services, &model.Service{Name: s.Name, Provider: s.Provider, PortLabel: "81"})
		}, ""},
		"of a task that is not there":  {func(_ *model.Task, s *model.Service) { s.TaskName = "nope" }, `service refers to task "nope", which the group does not have`},
		"a check of such a task":       {check(func(c *model.ServiceCheck) { c.TaskName = "nope" }), `check "c" refers to task "nope"`},
		"of a network that is not own": {func(_ *model.Task, s *model.Service) { s.AddressMode = "alloc" }, `service has address_mode "alloc", but the group has no network of its own`},
		"a check in no own network":    {check(func(c *model.ServiceCheck) { c.AddressMode = "alloc_ipv6" }), `check "c" has address_mode "alloc_ipv6", but`},
		"a check of such a port":       {check(func(c *model.ServiceCheck) { c.PortLabel = "nowhere" }), "nowhere"},
		"an interval of 0":             {check(func(c *model.ServiceCheck) { c.Interval = 0 }), "Interval cannot be less than 1s"},
		"a body of a check of 1 MiB":   {check(func(c *model.ServiceCheck) { c.Body = strings.Repeat("x", 1<<20) }), "at most 65536"},
		"an identity with a bad ttl":   {func(_ *model.Task, s *model.Service) { s.Identity = &model.WorkloadIdentity{TTL: time.Second} }, "ttl is 1s"},
		"a token outside of the task":  {func(k *model.Task, _ *model.Service) { k.Identities = tokenAt("../../etc/passwd") }, "not a file inside of the task's folder"},
		"a token in another's folder":  {func(k *model.Task, _ *model.Service) { k.Identities = tokenAt("/etc/cron.d/token") }, "not a file inside of the task's folder"},
		"a token in place of a socket": {func(k *model.Task, _ *model.Service) { k.Identities = tokenAt("secrets/api.sock") }, "not a file inside of the task's folder"},
	} {
		t.Run(name, func(t *testing.T) {
			j := validJob()
			s := &model.Service{Name: "web", Provider: "nomad", PortLabel: "80"}
			k := j.TaskGroups[0].Tasks[0]
			k.Services = []*model.Service{s}
			c.spoil(k, s)
			err := j.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestANetworkBlockThatCannotWorkIsRefusedWithItsCause(t *testing.T) {
	dns := func(servers ...string) func(*model.NetworkResource) {
		return func(n *model.NetworkResource) { n.DNS = &model.DNSConfig{Servers: servers} }
	}
	args := func(mode, k, v string) func(*model.NetworkResource) {
		return func(n *model.NetworkResource) {
			n.Mode, n.CNI = mode, &model.CNIConfig{Args: map[string]string{k: v}}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*model.NetworkResource)
		want  string
	}{
		"a sound network": {func(n *model.NetworkResource) {
			n.Hostname, n.DNS = "web-1.example_2", &model.DNSConfig{Servers: []string{"10.0.0.1", "fe80::1%eth0"}, Options: []string{"ndots:2"}}
		}, ""},
		"names that nodes know": {func(n *model.NetworkResource) {
			n.Hostname, n.DNS = "${NOMAD_JOB_NAME} x", &model.DNSConfig{Servers: []string{"${attr.unique.network.ip-address}"}}
		}, ""},
		"a hostname with a space":   {func(n *model.NetworkResource) { n.Hostname = "a b" }, `hostname "a b" of the network is not a valid DNS name`},
		"a hostname with a dash":    {func(n *model.NetworkResource) { n.Hostname = "-a" }, "is not a valid DNS name"},
		"a hostname of 65 bytes":    {func(n *model.NetworkResource) { n.Hostname = strings.Repeat("a", 65) }, "at most 64"},
		"a server that is a name":   {dns("ns.example"), `dns server "ns.example" of the network is not an IP address`},
		"a line in a search":        {func(n *model.NetworkResource) { n.DNS = &model.DNSConfig{Searches: []string{"a\nnameserver 1.2.3.4"}} }, "has white space"},
		"arguments of the bridge":   {args("bridge", "A", "b"), `network "bridge" takes no arguments`},
		"arguments of cni":          {args("cni/lan", "A", "b=c ${node.pool}"), ""},
		"an argument with an equal": {args("cni/lan", "A=B", "c"), "cannot be passed to CNI programs"},
		"two arguments in one":      {args("cni/lan", "A", "b;C=d"), "cannot be passed to CNI programs"},
	} {
		t.Run(name, func(t *testing.T) {
			j := validJob()
			n := &model.NetworkResource{Mode: "bridge"}
			j.TaskGroups[0].Networks = []*model.NetworkResource{n}
			c.spoil(n)
			err := j.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	j := validJob()
	j.TaskGroups[0].Networks = []*model.NetworkResource{{Mode: "host"}, {Mode: "bridge"}}
	if err := j.Validate(); err == nil || !strings.Contains(err.Error(), "Only one network block is allowed per task group") {
		t.Errorf("two networks: %v", err)
	}
}

func tokenAt(path string) []*model.WorkloadIdentity {
	return []*model.WorkloadIdentity{{Name: "x", File: true, Filepath: path}}
}
