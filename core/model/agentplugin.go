// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// AgentPlugin is a plugin of a node as its agent sees it. NodePlugin is what servers
// know of it.
type AgentPlugin struct {
	Name       string
	Version    string // the version that the running process reports
	Path       string
	Digest     string // "sha256:HEX" of the running file
	PID        int    // 0 if no process runs
	State      string
	Restarts   int
	Reattached bool // the process was started by an earlier agent process
	Drivers    []string
	Devices    []string
	Collectors []string // those that measure the machine
	Tasks      int      // number of tasks of its drivers that the agent knows
	// LastError says why the plugin does not work. UpgradeError says why the newest
	// version that was tried does not run.
	LastError    string
	UpgradeError string
	// Previous is the digest of the version to which a rollback returns.
	Previous string
	// Bad lists versions that failed. They are not tried again automatically.
	Bad []BadPluginVersion
	// Work is the current operation on the plugin, or the last one since the agent
	// started; nil if there was none.
	Work *PluginWork
}

// PluginWork is the progress of an operation on a plugin.
type PluginWork struct {
	Action string // install, rollback, reload; "follow" for a file that was replaced in plugin_dir
	// Step is the current step of the operation, or the step in which it ended:
	// fetching, verifying, starting, recovering, probing, switching.
	Step string
	// Done and Total count bytes while fetching and tasks while recovering. A Total of
	// 0 means unknown.
	Done, Total int64
	Began       time.Time
	Ended       *time.Time `json:",omitempty"` // nil while the operation is in progress
	Error       string     // why the operation failed
}

// BadPluginVersion is a version of a plugin that failed.
type BadPluginVersion struct {
	Digest string
	Why    string
}
