// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// AgentPlugin describes a plugin of a node in full, as its agent knows it. Servers know
// only NodePlugin.
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
	Networks   []string `json:",omitempty"` // names of network plugins
	Volumes    []string `json:",omitempty"` // names of storage plugins
	Registries []string `json:",omitempty"` // names of registries of services
	Tasks      int      // number of tasks of its drivers that the agent knows
	// LastError says why the plugin does not work. UpgradeError says why the newest
	// version that was tried does not run.
	LastError    string
	UpgradeError string
	// Warnings lists what the agent does not use of the plugin, such as a name that another
	// plugin serves, and what it cannot offer, such as a network whose program is missing.
	Warnings []string `json:",omitempty"`
	// DeviceGroups are the devices that its device plugins have found, and DeviceProblem
	// is why there are none.
	DeviceGroups  []*NodeDeviceResource `json:",omitempty"`
	DeviceProblem string                `json:",omitempty"`
	// Previous is the digest of the version to which a rollback returns.
	Previous string
	// Bad lists versions that failed. They are not tried again automatically.
	Bad []BadPluginVersion
	// Work is the current operation on the plugin, or the last one since the agent
	// started; nil if there was none.
	Work *PluginWork
	// Access is what the current or last process may do; nil before there was one.
	Access *PluginAccess `json:",omitempty"`
	// Stacks is the file on the node with the stacks that the process wrote when it
	// received SIGQUIT.
	Stacks string `json:",omitempty"`
}

// PluginAccess is what a plugin's process may do on its node. The keys of the plugin's
// block in the agent's configuration change it.
type PluginAccess struct {
	Profile         string // the kind that it serves, or what the configuration says: the defaults
	User            string // "" if the id has no name
	UID             int
	Groups          []string // groups from the profile or the configuration that the machine has
	Capabilities    []string // ["all"]: the capabilities of the agent
	NoNewPrivileges bool
	// Filesystem and Syscalls are "all" or "restricted". A restricted plugin cannot read
	// HiddenPaths, except ReadPaths below them, and can write only to WritePaths and
	// Folder.
	Filesystem  string
	HiddenPaths []string
	ReadPaths   []string
	WritePaths  []string
	Syscalls    string
	Network     bool
	MemoryMB    int // 0 means no limit, also below
	Pids        int
	OpenFiles   int
	StateMB     int
	TLS         bool   // mutual TLS on its connection
	Socket      string // "" if it listens on a port
	Folder      string // its state folder and working directory
	Lacking     []string
}

// PluginWork is the progress of an operation on a plugin.
type PluginWork struct {
	Action string // install (the first time), upgrade, rollback, reload; "follow" for a file that was replaced in plugin_dir
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
	At     time.Time // when it failed; zero if it was recorded before times were
}
