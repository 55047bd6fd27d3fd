// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package isolation

// Config is the isolation of one task. Paths are resolved paths of the machine. They
// are trusted down to TaskDir and SharedDir; the task controls what is below those.
type Config struct {
	// Scratch is an existing empty directory on which the root file system is mounted
	// while it is built.
	Scratch string `json:"scratch"`
	// TaskDir becomes the root directory. It is read-only except for local, secrets and
	// tmp. SharedDir is mounted at /alloc.
	TaskDir   string `json:"task_dir"`
	SharedDir string `json:"shared_dir"`
	// Chroot lists the parts of the machine's file system that the task sees, read-only.
	// Sources that do not exist are skipped, and links are copied as links.
	Chroot []Bind `json:"chroot,omitempty"`
	Mounts []Bind `json:"mounts,omitempty"`
	// Hide lists directories of the machine that no task may see even if they are below
	// one of Chroot.
	Hide    []string `json:"hide,omitempty"`
	Devices []Device `json:"devices,omitempty"`

	// Command is looked up inside the sandbox: as an absolute path, below /local or /,
	// or in PATH.
	Command string `json:"command"`
	WorkDir string `json:"work_dir,omitempty"` // path inside the sandbox; "/" if empty
	// Needs lists files that must exist inside the sandbox. Otherwise the start fails.
	Needs []string `json:"needs,omitempty"`

	// Bounding is the bounding capability set of the task. Ambient are the capabilities
	// that it has even if its user is not root. Both are numbers.
	Bounding []int `json:"bounding,omitempty"`
	Ambient  []int `json:"ambient,omitempty"`

	HostPID bool `json:"host_pid,omitempty"`
	// First makes the command process 1 of its pid namespace.
	First   bool `json:"first,omitempty"`
	HostIPC bool `json:"host_ipc,omitempty"`
	// NetworkNS is the path of a network namespace to join. Hostname is the host name
	// inside; if empty the machine's is kept.
	NetworkNS string `json:"network_ns,omitempty"`
	Hostname  string `json:"hostname,omitempty"`
	// ResolvConf is the content of /etc/resolv.conf. If empty the machine's is kept.
	ResolvConf string `json:"resolv_conf,omitempty"`
	// Hosts is the content of /etc/hosts. If empty the machine's is kept.
	Hosts string `json:"hosts,omitempty"`
	// NoPivotRoot changes the root with chroot instead of pivot_root, for machines whose
	// root is a ramfs.
	NoPivotRoot bool `json:"no_pivot_root,omitempty"`
}

// Bind makes Source visible at Target.
type Bind struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// Propagation is "", "private", "host-to-task" or "bidirectional".
	Propagation string `json:"propagation,omitempty"`
}

// Device is a device file or a directory of device files. Permissions is a subset of
// "rwm".
type Device struct {
	Source      string `json:"source"`
	Target      string `json:"target"`
	Permissions string `json:"permissions"`
}

// User is the user of a process.
type User struct {
	UID    uint32
	GID    uint32
	Groups []uint32
}
