// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// validateCheck returns what is wrong with a job whose only check was changed.
func validateCheck(provider string, change func(c *model.ServiceCheck)) string {
	c := &model.ServiceCheck{Name: "c", Type: "tcp", Interval: time.Second, Timeout: time.Second}
	change(c)
	j := &model.Job{
		ID: "j", Name: "j", Namespace: "default", Region: "global", Type: "service", Priority: 50, TaskGroups: []*model.TaskGroup{{
			Name: "g", Count: 1, Networks: []*model.NetworkResource{{DynamicPorts: []model.Port{{Label: "http"}}}},
			Services: []*model.Service{{Name: "web", Provider: provider, PortLabel: "http", Checks: []*model.ServiceCheck{c}}},
			Tasks:    []*model.Task{{Name: "t", Driver: "raw_exec"}},
		}},
	}
	if err := j.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

func TestAChecksValuesAreCheckedBeforeItRuns(t *testing.T) {
	base := validateCheck("nomad", func(*model.ServiceCheck) {})
	if strings.Contains(base, "Service[0]") {
		t.Fatalf("a good check: %s", base)
	}
	for want, c := range map[string]struct {
		provider string
		change   func(c *model.ServiceCheck)
	}{
		"Service[0] web validation failed: 2 errors occurred:\n\t* invalid check type (\"zz\"), must be one of tcp, http\n\t* missing required value interval. Interval cannot be less than 1s": {
			"nomad", func(c *model.ServiceCheck) { c.Type, c.Interval = "zz", 0 }},
		`invalid check type ("script"), must be one of tcp, http`: {"nomad", func(c *model.ServiceCheck) { c.Type, c.Command = "script", "x" }},
		"a script check runs inside a task":                       {"consul", func(c *model.ServiceCheck) { c.Type, c.Command = "script", "x" }},
		`port label "nope" of a check`:                            {"nomad", func(c *model.ServiceCheck) { c.PortLabel = "nope" }},
		`port label "70000" of a check`:                           {"nomad", func(c *model.ServiceCheck) { c.PortLabel = "70000" }},
		"interval (0s) cannot be lower than 1s":                   {"consul", func(c *model.ServiceCheck) { c.Interval = 0 }},
		"http type requires http path":                            {"nomad", func(c *model.ServiceCheck) { c.Type = "http" }},
		"must be relative":                                        {"nomad", func(c *model.ServiceCheck) { c.Type, c.Path = "http", "http://elsewhere/" }},
		`"X A" is no name of a header`: {"nomad", func(c *model.ServiceCheck) {
			c.Type, c.Path, c.Header = "http", "/", map[string][]string{"X A": {"b"}}
		}},
		"has control characters": {"nomad", func(c *model.ServiceCheck) {
			c.Type, c.Path, c.Header = "http", "/", map[string][]string{"X": {"a\r\nEvil: b"}}
		}},
		"is no HTTP method":                                       {"nomad", func(c *model.ServiceCheck) { c.Type, c.Path, c.Method = "http", "/", "GET /" }},
		"protocol of an http check":                               {"nomad", func(c *model.ServiceCheck) { c.Type, c.Path, c.Protocol = "http", "/", "ftp" }},
		"body of an http check has 70000 bytes":                   {"nomad", func(c *model.ServiceCheck) { c.Type, c.Path, c.Body = "http", "/", strings.Repeat("x", 70000) }},
		"initial_status must be":                                  {"nomad", func(c *model.ServiceCheck) { c.InitialStatus = "good" }},
		"on_update must be":                                       {"nomad", func(c *model.ServiceCheck) { c.OnUpdate = "maybe" }},
		"failures_before_critical must be from 0 to 1000, not -1": {"nomad", func(c *model.ServiceCheck) { c.FailuresBeforeCritical = -1 }},
		"check address_mode must be":                              {"nomad", func(c *model.ServiceCheck) { c.AddressMode = "moon" }},
		"expose of check":                                         {"nomad", func(c *model.ServiceCheck) { c.Expose = true }},
	} {
		if got := validateCheck(c.provider, c.change); !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}
