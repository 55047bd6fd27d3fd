// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package confine says what the processes of a plugin may do, by the kind of the plugin
// and the operator's configuration, and starts them so: with a user, capabilities, files
// (Landlock), system calls (seccomp) and limits (cgroups version 1, 2 and the hybrid of
// both). It is not for tasks, which have the rights of their driver and leave its cgroup.
// core/pluginhost and core/config import it.
package confine

// Limits are the limits of all processes of one plugin together. Zero means no limit.
type Limits struct {
	MemoryMB int
	Pids     int // processes and threads
}

// parent is the cgroup that contains the cgroups of all plugins.
const parent = "drover-plugins"
