// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervisor

import (
	"slices"
	"time"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	"github.com/drover-project/drover/sdk/isolation"
)

// Spec describes a task to run. The driver has resolved everything: the supervisor
// looks up neither command nor user.
type Spec struct {
	ID string `json:"id"`
	// Plugin is the plugin that runs the task. Several plugins may share a supervisor.
	Plugin string   `json:"plugin,omitempty"`
	Path   string   `json:"path"` // absolute path of the program
	Args   []string `json:"args"` // argv, starting with the program's name
	Env    []string `json:"env"`
	// Secrets are variables of the environment beside Env, as NAME=VALUE. They are in no
	// file: Client.Spec reads their values from the process of the task.
	Secrets []string `json:"secrets,omitempty"`
	Dir     string   `json:"dir"`
	// User is the user of the task. nil means the supervisor's user.
	User *User `json:"user,omitempty"`
	Logs Logs  `json:"logs"`
	// OOMScoreAdj is the task's oom_score_adj. nil leaves it unchanged.
	OOMScoreAdj *int `json:"oom_score_adj,omitempty"`
	// Cores are the cores on which the task may run. Empty means all. Linux only.
	Cores []int `json:"cores,omitempty"`
	// Shared are, for a task without Cores, those that no task has for itself. A task in a
	// cgroup of its own runs on these if the machine can do that. Linux only.
	Shared []int `json:"shared,omitempty"`
	// CgroupDirs are existing cgroups in which the task is started instead of its own
	// one. They may contain other processes and are never killed as a whole.
	CgroupDirs []string `json:"cgroup_dirs,omitempty"`
	// NetworkNS is the path of a network namespace to join. Linux only. For an isolated
	// task it is in Sandbox.
	NetworkNS string `json:"network_ns,omitempty"`
	// Mounts are made in a mount namespace of the task's own, see isolation.Plain. Linux only.
	// For an isolated task they are in Sandbox.
	Mounts []isolation.Bind `json:"mounts,omitempty"`
	// Sandbox isolates the task. If it is set, Path and Dir are not used: the command is
	// looked up inside the sandbox.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
}

// Sandbox is the isolation of a task and the limits of the cgroup that is made for it.
type Sandbox struct {
	isolation.Config
	Limits cgroup.Limits `json:"limits"`
}

// environ returns the whole environment of the task.
func (s *Spec) environ() []string { return slices.Concat(s.Env, s.Secrets) }

// User is a resolved user.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
}

// Logs says where a task's output is written: Root/Dir/Stdout.0 and so on. Root is
// trusted; the task may be able to write to Dir.
type Logs struct {
	Disabled     bool   `json:"disabled,omitempty"`
	Root         string `json:"root"`
	Dir          string `json:"dir"` // relative to Root
	Stdout       string `json:"stdout"`
	Stderr       string `json:"stderr"`
	MaxFiles     int    `json:"max_files"`
	MaxFileBytes int64  `json:"max_file_bytes"`
}

// Exit is how a task ended. If that cannot be determined, Unknown says why.
type Exit struct {
	Code    int    `json:"code"`
	Signal  int    `json:"signal,omitempty"`
	OOM     bool   `json:"oom,omitempty"`
	Unknown string `json:"unknown,omitempty"`
}

// Status is the state of a task. Exit is nil while it runs.
type Status struct {
	ID        string    `json:"id"`
	Plugin    string    `json:"plugin,omitempty"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Exit      *Exit     `json:"exit,omitempty"`
	// Ending means that the process has ended and its exit code is still being looked
	// up.
	Ending bool `json:"ending,omitempty"`
	// Cgroup is the directory of the task's own cgroup, if it has one.
	Cgroup string `json:"cgroup,omitempty"`
	// Group is the name of an isolated task's cgroups.
	Group string `json:"group,omitempty"`
	// DroppedLogBytes counts the bytes of output that could not be written.
	DroppedLogBytes uint64 `json:"dropped_log_bytes,omitempty"`
	// LogError says why output was last dropped.
	LogError string `json:"log_error,omitempty"`
}

// Process is the usage of one process since it started.
type Process struct {
	Start     uint64 // in clock ticks since boot; another process with its pid has another
	StartedAt time.Time
	At        time.Time // when it was measured
	User      time.Duration
	System    time.Duration
	RSS       uint64 // bytes
}

// IO is in bytes.
type IO struct{ Read, Written uint64 }

// Usage is the total resource usage of a task's processes since they started.
type Usage struct {
	User   time.Duration
	System time.Duration
	RSS    uint64 // bytes
	PIDs   []int
	// IO is what the processes, and those that they have waited for, have read from and
	// written to storage, in bytes; nil if it is not known.
	IO *IO
	// Group is the usage of an isolated task's cgroup; nil for others.
	Group *cgroup.Usage
}
