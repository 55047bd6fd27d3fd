// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package confine puts plugin processes into cgroups of their own, so that a plugin
// that leaks memory or forks endlessly harms only itself. It supports cgroup version
// 1, version 2 and the hybrid of both. It does not start or kill processes, and is not
// for tasks: their supervisor leaves the cgroup of its plugin
// (plugins/internal/supervisor). core/pluginhost imports it.
package confine

// Limits are the limits of all processes of one plugin together. Zero means no limit.
type Limits struct {
	MemoryMB int
	Pids     int // processes and threads
}

// parent is the cgroup that contains the cgroups of all plugins.
const parent = "drover-plugins"
