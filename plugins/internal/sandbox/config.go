// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import "time"

// Config is the isolation of one task. Paths are the machine's, resolved, and
// trusted down to TaskDir and SharedDir; what lies below those is the task's.
type Config struct {
	// Scratch is an existing, empty directory to mount on while building.
	Scratch string `json:"scratch"`
	// TaskDir becomes the root directory, read-only but for local, secrets and
	// tmp in it. SharedDir is /alloc.
	TaskDir   string `json:"task_dir"`
	SharedDir string `json:"shared_dir"`
	// Chroot are the parts of the machine's file system that the task sees,
	// read-only. What does not exist is left out, a link is copied as one.
	Chroot []Bind `json:"chroot,omitempty"`
	Mounts []Bind `json:"mounts,omitempty"`
	// Hide are directories of the machine that no task may see, should they lie
	// below one of Chroot.
	Hide    []string `json:"hide,omitempty"`
	Devices []Device `json:"devices,omitempty"`

	// Command is looked up inside: absolute, below /local or /, or in PATH.
	Command string `json:"command"`
	WorkDir string `json:"work_dir,omitempty"` // inside; "/" if empty
	// Needs are files that must be there inside, or the start fails.
	Needs []string `json:"needs,omitempty"`

	// Bounding are the capabilities that the task may have at most, Ambient those
	// that it has though its user is not root. Both by number.
	Bounding []int `json:"bounding,omitempty"`
	Ambient  []int `json:"ambient,omitempty"`

	HostPID bool `json:"host_pid,omitempty"`
	// First makes the command process 1 of its pid namespace.
	First   bool `json:"first,omitempty"`
	HostIPC bool `json:"host_ipc,omitempty"`
	// NetworkNS is the file of a network namespace to join, Hostname the name of
	// the machine inside; empty keeps the machine's.
	NetworkNS string `json:"network_ns,omitempty"`
	Hostname  string `json:"hostname,omitempty"`
	// ResolvConf is the content of /etc/resolv.conf; empty keeps the machine's.
	ResolvConf string `json:"resolv_conf,omitempty"`
	// NoPivotRoot moves the root by chroot, for a machine that runs from a ram disk.
	NoPivotRoot bool `json:"no_pivot_root,omitempty"`

	Limits Limits `json:"limits"`
}

// Bind shows Source at Target.
type Bind struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// Propagation is "", "private", "host-to-task" or "bidirectional".
	Propagation string `json:"propagation,omitempty"`
}

// Device is a device file, or a directory of them. Permissions are of "rwm".
type Device struct {
	Source      string `json:"source"`
	Target      string `json:"target"`
	Permissions string `json:"permissions"`
}

// Limits are what the task may use. Zero values set no limit.
type Limits struct {
	MemoryMax int64 `json:"memory_max,omitempty"` // bytes; beyond it the kernel kills
	// MemoryLow is what the task keeps when the machine is short of memory.
	MemoryLow int64 `json:"memory_low,omitempty"`
	CPUShares int64 `json:"cpu_shares,omitempty"` // in MHz; a weight, not a limit
	Cores     []int `json:"cores,omitempty"`      // the only cores to run on
	// Pids is the maximum number of processes and threads, if cgroups can limit it.
	Pids int64 `json:"pids,omitempty"`
}

// User is who a process runs as.
type User struct {
	UID    uint32
	GID    uint32
	Groups []uint32
}

// Usage is what the processes of a cgroup use. Memory is in bytes.
type Usage struct {
	User, System     time.Duration
	ThrottledPeriods uint64
	ThrottledTime    time.Duration

	Memory, MaxMemory, RSS, Cache, Swap, MappedFile, Kernel uint64

	PIDs []int
}
