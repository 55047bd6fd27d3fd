// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

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
}

// BadPluginVersion is a version of a plugin that did not work.
type BadPluginVersion struct {
	Digest string
	Why    string
}
