// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Access has the operator's settings for the rights of one plugin, from its block in the
// agent's configuration. Unset fields have the defaults of the plugin's profile.
type Access struct {
	// Profile is the set of defaults: "driver", "device", "network", "volume", "registry" or
	// "stats". If
	// it is unset, it follows from the kind that the plugin serves.
	Profile string `json:"profile,omitempty"`
	// User is the name or the id of the user as which the plugin runs.
	User string `json:"user,omitempty"`
	// Groups are the names of further groups of the plugin.
	Groups []string `json:"groups,omitempty"`
	// Capabilities are the capabilities that the plugin may have, such as "net_admin";
	// ["all"] means all, and an empty list none.
	Capabilities []string `json:"capabilities,omitempty"`
	// NoNewPrivileges keeps setuid programs from giving the plugin's processes more
	// rights.
	NoNewPrivileges *bool `json:"no_new_privileges,omitempty"`
	// Filesystem is "all", or "restricted": the plugin can then read the machine's files
	// except the agent's own, and write only to its own folders.
	Filesystem string `json:"filesystem,omitempty"`
	// ReadPaths and WritePaths are paths that a restricted plugin may also read, or read
	// and write.
	ReadPaths  []string `json:"read_paths,omitempty"`
	WritePaths []string `json:"write_paths,omitempty"`
	// Network lets the plugin make sockets of the internet protocols.
	Network *bool `json:"network,omitempty"`
	// Syscalls is "all", or "restricted" to the system calls that a plugin of its kind
	// needs.
	Syscalls string `json:"syscalls,omitempty"`
	// MemoryMB, Pids, OpenFiles and StateMB limit the memory of the plugin's processes
	// (MiB), their number, the open files of each, and the size of the state folder
	// (MiB). 0 means the default and -1 no limit.
	MemoryMB  int `json:"memory_mb,omitempty"`
	Pids      int `json:"pids,omitempty"`
	OpenFiles int `json:"open_files,omitempty"`
	StateMB   int `json:"state_mb,omitempty"`
}

// The profiles, by the kind of the plugin that has them.
const (
	ProfileDriver   = "driver"
	ProfileDevice   = "device"
	ProfileNetwork  = "network"
	ProfileVolume   = "volume"
	ProfileRegistry = "registry"
	ProfileStats    = "stats"
)

// The values of Access.Filesystem and Access.Syscalls.
const (
	Everything = "all"
	Restricted = "restricted"
)

// Problems lists the errors in the values. Each text begins with what, such as `plugin
// "x"`.
func (a *Access) Problems(what string) []string {
	var out []string
	add := func(format string, args ...any) {
		out = append(out, what+": "+fmt.Sprintf(format, args...))
	}
	oneOf := func(key, value string, values ...string) {
		if value != "" && !slices.Contains(values, value) {
			add("%s %q is not one of %s", key, value, strings.Join(values, ", "))
		}
	}
	oneOf("profile", a.Profile, ProfileDriver, ProfileDevice, ProfileNetwork, ProfileVolume, ProfileRegistry, ProfileStats)
	oneOf("filesystem", a.Filesystem, Everything, Restricted)
	oneOf("syscalls", a.Syscalls, Everything, Restricted)
	for _, name := range a.Capabilities {
		if name != allCapabilities && capabilityNumber(name) < 0 {
			add("capabilities: there is no capability %q; name one of %s, or all", name, strings.Join(capabilities[:], ", "))
		}
	}
	if slices.Contains(a.Capabilities, allCapabilities) && len(a.Capabilities) > 1 {
		add("capabilities: all stands alone; remove it or the others")
	}
	for key, paths := range map[string][]string{"read_paths": a.ReadPaths, "write_paths": a.WritePaths} {
		for _, p := range paths {
			if !filepath.IsAbs(p) {
				add("%s: %q is not an absolute path", key, p)
			}
		}
		if len(paths) > 0 && a.Filesystem == Everything {
			add("%s contradicts filesystem = %q, with which the plugin may use every path; remove one of them", key, Everything)
		}
	}
	for _, n := range []struct {
		key   string
		value int
	}{{"memory_mb", a.MemoryMB}, {"pids", a.Pids}, {"open_files", a.OpenFiles}, {"state_mb", a.StateMB}} {
		if n.value < -1 {
			add("%s %d is neither a number above 0 nor -1 for no limit", n.key, n.value)
		}
	}
	slices.Sort(out)
	return out
}

// allCapabilities stands for every capability.
const allCapabilities = "all"

// capabilities are the names of the kernel's capabilities, by number.
var capabilities = [...]string{
	"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
	"linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
	"sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
	"sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
	"mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
	"checkpoint_restore",
}

// capabilityNumber returns the number of a capability, with or without the prefix
// CAP_; -1 if there is none of that name.
func capabilityNumber(name string) int {
	return slices.Index(capabilities[:], strings.TrimPrefix(strings.ToLower(name), "cap_"))
}
