// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestTelemetryThatMakesNoSenseIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config.Telemetry)
		want   string
	}{
		"good":           {func(t *config.Telemetry) { t.PrefixFilter = []string{"+nomad.raft", "-nomad.client"} }, ""},
		"short interval": {func(t *config.Telemetry) { t.CollectionInterval = "1ms" }, "telemetry.collection_interval: \"1ms\" is less than 100ms"},
		"no interval":    {func(t *config.Telemetry) { t.CollectionInterval = "often" }, "telemetry.collection_interval: \"often\" is not a duration"},
		"short memory":   {func(t *config.Telemetry) { t.InMemoryCollectionInterval = "1ms" }, "telemetry.in_memory_collection_interval"},
		"rule":           {func(t *config.Telemetry) { t.PrefixFilter = []string{"nomad.raft"} }, "telemetry.prefix_filter: \"nomad.raft\" must begin with + or -"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Defaults()
			cfg.Server.Enabled, cfg.DataDir = true, t.TempDir()
			c.change(&cfg.Telemetry)
			text := ""
			if err := cfg.Finish(); err != nil {
				text = err.Error()
			}
			if (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

func TestADevAgentPublishesWhatItMeasures(t *testing.T) {
	if c := config.DevDefaults().Telemetry; !c.PrometheusMetrics || !c.PublishAllocationMetrics || !c.PublishNodeMetrics {
		t.Errorf("dev: %+v", c)
	}
	if c := config.Defaults().Telemetry; c.PrometheusMetrics || c.PublishAllocationMetrics || c.PublishNodeMetrics {
		t.Errorf("others: %+v", c)
	}
}
