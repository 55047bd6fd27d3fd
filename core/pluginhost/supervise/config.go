// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
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
	BackoffMin time.Duration // before the first restart
	BackoffMax time.Duration
	// A plugin that fails CrashLoopFailures times within CrashLoopWindow is started
	// only every BackoffMax, until a process has run for Steady, which also resets the
	// backoff.
	CrashLoopFailures int
	CrashLoopWindow   time.Duration
	Steady            time.Duration
	// AbsentInterval is the interval of checks on a machine that lacks what a plugin
	// needs.
	AbsentInterval time.Duration
	// UpgradeTimeout limits the time for a new version to become ready, and
	// RetireTimeout how long the old one continues for calls in progress.
	UpgradeTimeout time.Duration
	RetireTimeout  time.Duration
	// A version that crashes ProbationCrashes times within Probation after its takeover
	// is rolled back.
	Probation        time.Duration
	ProbationCrashes int
}

// Prune removes the versions of a plugin to which nothing can return.
func (h *Shared) Prune(name string) {
	m := h.Catalog.Get(name)
	h.Versions.Prune(name, m.Running, m.Previous)
}

// configs are the blocks for what a plugin serves.
func (s *Plugin) configs(parts kinds.Parts) map[string]map[string]any {
	return s.configsWith(s.shared.Catalog.Get(s.name).Config, parts)
}

// configsWith replaces the agent's blocks by the config of a release. If its keys are
// names that the plugin serves, each with a block, these are their blocks; otherwise
// it is the block of all names.
func (s *Plugin) configsWith(config map[string]any, parts kinds.Parts) map[string]map[string]any {
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

// blockOf is a block as JSON has it, or as a file of HCL, where blocks are lists.
func blockOf(value any) (map[string]any, bool) {
	if list, ok := value.([]any); ok && len(list) == 1 {
		value = list[0]
	}
	block, ok := value.(map[string]any)
	return block, ok
}
