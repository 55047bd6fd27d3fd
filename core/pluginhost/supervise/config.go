// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"cmp"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/core/pluginhost/process"
)

// Shared is what the plugins of one host have in common; all of it is required.
type Shared struct {
	Logger   hclog.Logger
	Launcher *process.Launcher
	Kinds    *kinds.Set
	Catalog  *install.Catalog
	Dir      install.Dir
	Versions *install.Versions
	Works    *install.Works
	// Blocks are the blocks of the agent's configuration, by the name of a driver, a
	// device plugin or a file.
	Blocks map[string]map[string]any
	Timing

	// Go runs a function that must end before the host has ended.
	Go func(func())
	// Changed is called after each change of a plugin's status.
	Changed func()
	// Keep reports whether processes are left to the next agent at the end of the host.
	Keep func() bool
}

// Timing says when plugins are started again, upgraded and rolled back.
type Timing struct {
	Pings      process.Pings
	BackoffMin time.Duration // before the first restart; default 250 ms
	BackoffMax time.Duration // default 1 min
	// A plugin that fails CrashLoopFailures times (default 5) within CrashLoopWindow
	// (default 5 min) is started only every BackoffMax, until a process has run for
	// Steady (default 1 min), which also resets the backoff.
	CrashLoopFailures int
	CrashLoopWindow   time.Duration
	Steady            time.Duration
	// AbsentInterval is the time until a machine that lacks what a plugin needs is checked
	// again; default 1 min. It doubles with each check, up to ten times this time.
	AbsentInterval time.Duration
	// UpgradeTimeout limits the time for a new version to become ready, and
	// RetireTimeout how long the old one continues for calls in progress.
	UpgradeTimeout time.Duration // default 1 min
	RetireTimeout  time.Duration // default 5 min
	// A version that crashes ProbationCrashes times within Probation after its takeover
	// is rolled back.
	Probation        time.Duration // default 1 min
	ProbationCrashes int           // default 3
}

// SetDefaults replaces zero values with the defaults.
func (t *Timing) SetDefaults() {
	t.Pings.Interval = cmp.Or(t.Pings.Interval, 10*time.Second)
	t.Pings.Timeout = cmp.Or(t.Pings.Timeout, 5*time.Second)
	t.Pings.Failures = cmp.Or(t.Pings.Failures, 3)
	t.BackoffMin = cmp.Or(t.BackoffMin, 250*time.Millisecond)
	t.BackoffMax = cmp.Or(t.BackoffMax, time.Minute)
	t.CrashLoopFailures = cmp.Or(t.CrashLoopFailures, 5)
	t.CrashLoopWindow = cmp.Or(t.CrashLoopWindow, 5*time.Minute)
	t.Steady = cmp.Or(t.Steady, time.Minute)
	t.AbsentInterval = cmp.Or(t.AbsentInterval, time.Minute)
	t.UpgradeTimeout = cmp.Or(t.UpgradeTimeout, time.Minute)
	t.RetireTimeout = cmp.Or(t.RetireTimeout, 5*time.Minute)
	t.Probation = cmp.Or(t.Probation, time.Minute)
	t.ProbationCrashes = cmp.Or(t.ProbationCrashes, 3)
}

// Prune removes the versions of a plugin to which nothing can return.
func (h *Shared) Prune(name string) {
	m := h.Catalog.Get(name)
	h.Versions.Prune(name, m.Running, m.Previous)
}

// configs returns the configuration blocks for the names that a plugin serves.
func (s *Plugin) configs(parts kinds.Parts) map[string]map[string]any {
	return s.configsWith(s.shared.Catalog.Get(s.name).Config, parts)
}

// configsWith replaces the agent's blocks by the config of a release. If its keys are
// names that the plugin serves, each with a block, these are their blocks; otherwise
// it is the block of all names.
func (s *Plugin) configsWith(config map[string]any, parts kinds.Parts) map[string]map[string]any {
	if f := s.File(); f.Of != "" {
		return map[string]map[string]any{f.Serves: f.Config}
	}
	if config == nil {
		return s.shared.Blocks
	}
	serves := parts.Names()
	blocks := map[string]map[string]any{}
	for key, value := range config {
		block, ok := blockOf(value)
		if !ok || !slices.Contains(serves, key) {
			return map[string]map[string]any{s.name: config}
		}
		blocks[key] = block
	}
	return blocks
}

// blockOf returns a block from its JSON form, or from its HCL form, in which blocks are
// lists.
func blockOf(value any) (map[string]any, bool) {
	if list, ok := value.([]any); ok && len(list) == 1 {
		value = list[0]
	}
	block, ok := value.(map[string]any)
	return block, ok
}
