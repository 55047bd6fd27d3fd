// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import "time"

// Limits are the resource limits of the task. Zero means no limit.
type Limits struct {
	MemoryMax int64 `json:"memory_max,omitempty"` // bytes; the OOM killer enforces it
	// MemoryLow is the memory that the kernel protects for the task when the machine is
	// short of memory.
	MemoryLow int64 `json:"memory_low,omitempty"`
	CPUShares int64 `json:"cpu_shares,omitempty"` // MHz; a weight, not a limit
	Cores     []int `json:"cores,omitempty"`      // the only cores on which the task may run
	// Shared are, for a task without Cores, those that no task has for itself. The task runs on
	// these if the machine can do that.
	Shared []int `json:"shared,omitempty"`
	// Pids is the maximum number of processes and threads. It applies if the pids
	// controller is available.
	Pids int64 `json:"pids,omitempty"`
}

// Usage is the resource usage of a cgroup's processes. Memory is in bytes.
type Usage struct {
	User, System     time.Duration
	ThrottledPeriods uint64
	ThrottledTime    time.Duration

	Memory, MaxMemory, RSS, Cache, Swap, MappedFile, Kernel uint64

	PIDs []int

	// IO is the input and output on block devices; nil if the kernel does not count it.
	IO *IO
}

// IO is input and output on block devices since the cgroup was made.
type IO struct{ ReadBytes, WrittenBytes, Reads, Writes uint64 }
