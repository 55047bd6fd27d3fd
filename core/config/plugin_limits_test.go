// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestPluginsAreLimitedByOptionsThatTheReferenceAccepts(t *testing.T) {
	c := config.Client{Options: config.Strings{
		"plugin.driver-docker.memory_mb": "256", "plugin.driver-docker.pids": "-1", "plugin.*.pids": "500",
		"plugin.com.acme.gpu.pids": "7", "driver.allowlist": "docker", "plugin.": "x",
	}}
	limits, problems := c.PluginLimits()
	want := map[string]config.PluginLimits{"driver-docker": {MemoryMB: 256, Pids: -1}, "*": {Pids: 500}, "com.acme.gpu": {Pids: 7}}
	if !maps.Equal(limits, want) || len(problems) > 0 {
		t.Fatalf("limits %+v, problems %q", limits, problems)
	}
}

func TestLimitsOfPluginsThatMakeNoSenseAreRefused(t *testing.T) {
	for key, text := range map[string]string{
		"plugin.x.memory_mb": "0", "plugin.x.pids": "-2", "plugin.x.pid": "1", "plugin.y.memory_mb": "1GB",
	} {
		c := config.DevDefaults()
		c.Client.Options = config.Strings{key: text}
		if err := c.Finish(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s = %q gave %v", key, text, err)
		}
	}
}
