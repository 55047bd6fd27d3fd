// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/config"
)

func TestHowANodeLeavesIsReadAndWhatDoesNothingIsNamed(t *testing.T) {
	const drain = "client {\nenabled = true\ndrain_on_shutdown {\nDRAIN\n}\n}\n"
	for text, want := range map[string]struct {
		spec    config.DrainSpec
		warning string
		problem string
	}{
		"leave_on_terminate = true\n" + drain: {spec: config.DrainSpec{Deadline: time.Hour}},
		"leave_on_interrupt = true\n" + strings.Replace(drain, "DRAIN", "deadline = \"5m\"\nignore_system_jobs = true", 1): {
			spec: config.DrainSpec{Deadline: 5 * time.Minute, IgnoreSystemJobs: true}},
		"leave_on_interrupt = true\n" + strings.Replace(drain, "DRAIN", "force = true", 1):            {spec: config.DrainSpec{Deadline: -1}},
		"leave_on_interrupt = true\n" + strings.Replace(drain, "DRAIN", "deadline = \"0s\"", 1):       {problem: "drain_on_shutdown: deadline"},
		"leave_on_interrupt = true\n" + strings.Replace(drain, "DRAIN", "deadline = \"tomorrow\"", 1): {problem: "drain_on_shutdown: deadline"},
		drain:                         {spec: config.DrainSpec{Deadline: time.Hour}, warning: "drain_on_shutdown does nothing without leave_on"},
		"leave_on_terminate = true\n": {warning: "do nothing without client.drain_on_shutdown"},
	} {
		c := merged(t, strings.Replace(text, "DRAIN", "", 1))
		err := c.Finish()
		switch {
		case want.problem != "":
			if err == nil || !strings.Contains(err.Error(), want.problem) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want.spec != (config.DrainSpec{}) && c.Client.Drain.Spec() != want.spec {
			t.Errorf("%s: %+v", text, c.Client.Drain.Spec())
		}
		if got := strings.Join(c.Warnings, "; "); !strings.Contains(got, want.warning) || want.warning == "" && got != "" {
			t.Errorf("%s: warnings %q", text, got)
		}
	}
}

func TestIntroductionsAreConfiguredOrRefusedByName(t *testing.T) {
	for text, problem := range map[string]string{
		`enforcement = "strict"`: "", `enforcement = "none"`: "", `enforcement = "warn"
default_identity_ttl = "1m"
max_identity_ttl = "1h"`: "",
		`enforcement = "maybe"`:      "client_introduction.enforcement",
		`max_identity_ttl = "0s"`:    "max_identity_ttl",
		`default_identity_ttl = "x"`: "default_identity_ttl",
		`default_identity_ttl = "2h"
max_identity_ttl = "1h"`: "longer than max_identity_ttl",
	} {
		c := config.Defaults()
		err := c.Merge("x.hcl", []byte("data_dir = \"/tmp/x\"\nserver {\nenabled = true\nclient_introduction {\n"+text+"\n}\n}"))
		if err == nil {
			err = c.Finish()
		}
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
