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

func tokenAt(path string) []*model.WorkloadIdentity {
	return []*model.WorkloadIdentity{{Name: "x", File: true, Filepath: path}}
}
