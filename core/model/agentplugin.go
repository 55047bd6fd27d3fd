// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// AgentPlugin is one plugin of a node's agent, as the agent itself knows it. What
// servers know of it is NodePlugin.
type AgentPlugin struct {
	Name       string
	Version    string // what the running process says of itself
	Path       string
	Digest     string // "sha256:HEX" of the file that runs
	PID        int    // 0: no process runs
	State      string
	Restarts   int
	Reattached bool // the process was there before the agent
	Drivers    []string
	Devices    []string
	Collectors []string // those that measure the machine
	Tasks      int      // tasks of its drivers that the agent knows
	// LastError is why the plugin does not work, UpgradeError why the newest
	// version that was tried does not run.
	LastError    string
	UpgradeError string
	// Previous is the digest of the version that a rollback returns to.
	Previous string
	// Bad are versions that were tried, did not work, and are not tried again by
	// themselves.
	Bad []BadPluginVersion
	// Work is what is being done to the plugin, or was done to it last since the
	// agent began; nil for nothing.
	Work *PluginWork
}

// PluginWork is how far a change of a plugin has come.
type PluginWork struct {
	Action string // install, rollback, reload; follow, of a file that was replaced in plugin_dir
	// Step is the one that the work is in, or ended in: fetching, verifying, starting,
	// recovering, probing, switching.
	Step string
	// Done and Total are bytes while fetching and tasks while recovering; a Total of
	// 0 is not known.
	Done, Total int64
	Began       time.Time
	Ended       *time.Time `json:",omitempty"` // nil while it is under way
	Error       string     // why it came to nothing
}

// BadPluginVersion is a version of a plugin that did not work.
type BadPluginVersion struct {
	Digest string
	Why    string
}
