// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestLimitsOfJobsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		server config.Server
		want   string
	}{
		"good":             {config.Server{JobDefaultPriority: 60, JobMaxPriority: 200, JobMaxCount: 5, JobMaxSourceSize: "2M"}, ""},
		"low greatest":     {config.Server{JobMaxPriority: 99}, "server.job_max_priority cannot be 99. Must be between 100 and 32766"},
		"high greatest":    {config.Server{JobMaxPriority: 40000}, "server.job_max_priority cannot be 40000"},
		"low default":      {config.Server{JobDefaultPriority: 10}, "server.job_default_priority cannot be 10. Must be between 50 and 100"},
		"default over max": {config.Server{JobDefaultPriority: 201, JobMaxPriority: 200}, "Must be between 50 and 200"},
		"count":            {config.Server{JobMaxCount: -1}, "job_max_count"},
		"source":           {config.Server{JobMaxSourceSize: "many"}, "job_max_source_size"},
		"huge source":      {config.Server{JobMaxSourceSize: "2TB"}, "job_max_source_size"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Defaults()
			cfg.Server, cfg.DataDir = c.server, t.TempDir()
			cfg.Server.Enabled = true
			text := ""
			if err := cfg.Finish(); err != nil {
				text = err.Error()
			}
			if (c.want == "") == strings.Contains(text, "server.job_") || !strings.Contains(text, c.want) {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}
