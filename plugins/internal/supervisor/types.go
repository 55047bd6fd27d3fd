// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervisor

import (
	"time"

	"github.com/drover-project/drover/plugins/internal/sandbox"
)

// Spec is one task to run. Everything is resolved: the supervisor looks up no
// command and no user.
type Spec struct {
	ID string `json:"id"`
	// Plugin is the plugin that has the task: several may share a supervisor.
	Plugin string   `json:"plugin,omitempty"`
	Path   string   `json:"path"` // the program, absolute
	Args   []string `json:"args"` // argv, the program's name first
	Env    []string `json:"env"`
	Dir    string   `json:"dir"`
	// User is who to run as; nil is the supervisor's own user.
	User *User `json:"user,omitempty"`
	Logs Logs  `json:"logs"`
	// OOMScoreAdj is written for the task if it is not nil.
	OOMScoreAdj *int `json:"oom_score_adj,omitempty"`
	// Cores are the only ones that the task runs on; empty for all. Linux only.
	Cores []int `json:"cores,omitempty"`
	// CgroupDirs are existing cgroups that the task is started in instead of one
	// of its own. They may hold others too and are never killed as a whole.
	CgroupDirs []string `json:"cgroup_dirs,omitempty"`
	// NetworkNS is the file of a network namespace to join. Linux only; that of an
	// isolated task is in Sandbox.
	NetworkNS string `json:"network_ns,omitempty"`
	// Sandbox isolates the task. Path and Dir are not used then: they are looked
	// up inside.
	Sandbox *sandbox.Config `json:"sandbox,omitempty"`
}

// User is a resolved user.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
}

// Logs says where a task's output goes: Root/Dir/Stdout.0 and so on. Root is
// trusted; Dir may be writable to the task.
type Logs struct {
	Disabled     bool   `json:"disabled,omitempty"`
	Root         string `json:"root"`
	Dir          string `json:"dir"` // relative to Root
	Stdout       string `json:"stdout"`
	Stderr       string `json:"stderr"`
	MaxFiles     int    `json:"max_files"`
	MaxFileBytes int64  `json:"max_file_bytes"`
}

// Exit is how a task ended. Unknown is not empty if that cannot be known, and
// says why.
type Exit struct {
	Code    int    `json:"code"`
	Signal  int    `json:"signal,omitempty"`
	OOM     bool   `json:"oom,omitempty"`
	Unknown string `json:"unknown,omitempty"`
}

// Status is how a task is. Exit is nil while it runs.
type Status struct {
	ID        string    `json:"id"`
	Plugin    string    `json:"plugin,omitempty"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Exit      *Exit     `json:"exit,omitempty"`
	// Ending says that the process is gone and how it ended is still looked up.
	Ending bool `json:"ending,omitempty"`
	// Cgroup is the directory of the task's own cgroup, if it has one.
	Cgroup string `json:"cgroup,omitempty"`
	// Group is the name of an isolated task's cgroups.
	Group string `json:"group,omitempty"`
	// DroppedLogBytes counts output that could not be written.
	DroppedLogBytes uint64 `json:"dropped_log_bytes,omitempty"`
	// LogError is why output was dropped last.
	LogError string `json:"log_error,omitempty"`
}

// Usage is what a task's processes have used since they started.
type Usage struct {
	User   time.Duration
	System time.Duration
	RSS    uint64 // bytes, now
	PIDs   []int
	// Group is what the cgroup of an isolated task tells; nil for others.
	Group *sandbox.Usage
}
