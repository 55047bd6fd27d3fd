// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import "github.com/hashicorp/go-hclog"

// Root is where machines mount their cgroups.
const Root = "/sys/fs/cgroup"

// Config configures a Tree.
type Config struct {
	Root string // default Root
	// Owner names the agent, since a machine may have several. It stays the same over
	// restarts.
	Owner string
	// Cores returns the cores that tasks may use; it may block until they are known.
	Cores func() []int
	// All returns the cores of the machine; nil means those of Cores.
	All    func() []int
	Logger hclog.Logger
}

// Task is a task that gets a group.
type Task struct {
	AllocID, Name string
	Cores         []int // cores reserved for this task alone; nil: it shares the cores that no task has reserved
	Limits        *Limits
}

// Limits are the limits that the host enforces on a task. Zero means no limit.
type Limits struct {
	MemoryBytes int64 // hard limit
	// MemoryLowBytes is the memory that the kernel protects when the machine runs short.
	MemoryLowBytes int64
	CPUShares      int64 // weight relative to other cgroups; 1024 is the default
}

// Group is the group of a task.
type Group struct {
	Version int // version of cgroups: 1 or 2
	// Dirs are its directories by controller. On version 1 each controller has its own, and
	// the cpuset directory may be shared with other tasks; on version 2 all are the same.
	Dirs map[string]string
}
