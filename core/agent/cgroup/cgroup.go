// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import "github.com/hashicorp/go-hclog"

// Root is where machines mount their cgroups.
const Root = "/sys/fs/cgroup"

// Config configures a Tree.
type Config struct {
	Root string // default Root
	// Owner names the agent among those of the machine, the same one after a restart.
	Owner string
	// Cores returns the cores that tasks may use; it may block until they are known.
	Cores  func() []int
	Logger hclog.Logger
}

// Task is a task that gets a group.
type Task struct {
	AllocID, Name string
	Cores         []int // reserved for it alone; nil: it shares what nobody has reserved
	Limits        *Limits
}

// Limits are what the host enforces on a task. Zero means no limit.
type Limits struct {
	MemoryBytes int64 // that it may use at most
	// MemoryLowBytes is what it is likely to keep when the machine runs short.
	MemoryLowBytes int64
	CPUShares      int64 // its weight against others, of 1024 as usual
}

// Group is the group of a task.
type Group struct {
	Version int // of cgroups: 1 or 2
	// Dirs are its directories by controller. On version 1 each controller has its own,
	// and that of cpuset may be shared with other tasks; on version 2 all are the same.
	Dirs map[string]string
}
