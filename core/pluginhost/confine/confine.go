// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package confine puts plugin processes into cgroups of their own, so that one
// that leaks memory or forks without end harms itself. It knows version 1 of
// cgroups, version 2, and both beside each other. It does not launch or kill
// processes, and it is not for tasks: what runs those leaves the group of its
// plugin (plugins/internal/supervisor). core/pluginhost imports it.
package confine

// Limits are those of one plugin's processes together. Zero is no limit.
type Limits struct {
	MemoryMB int
	Pids     int // processes and threads
}

// parent is the group that holds those of all plugins.
const parent = "drover-plugins"
