// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"cmp"
	"slices"
	"strings"
)

// Rights are what the processes of one plugin may do. The status of a plugin shows them.
type Rights struct {
	Profile string
	// User is the name or the id of the user; "" is the agent's own user. OwnUser means
	// an id that no other plugin has.
	User            string   `json:",omitempty"`
	OwnUser         bool     `json:",omitempty"`
	Groups          []string `json:",omitempty"`
	Capabilities    []string // ["all"] means all that the agent has
	NoNewPrivileges bool
	// RestrictFiles limits the plugin to the paths that are not in Hidden, for reading,
	// and to Write, for writing. Read are paths inside of Hidden that it may read.
	RestrictFiles    bool
	Hidden           []string `json:",omitempty"`
	Read             []string `json:",omitempty"`
	Write            []string `json:",omitempty"`
	Network          bool
	RestrictSyscalls bool
	// MemoryMB, Pids, OpenFiles and StateMB are limits; 0 means none.
	MemoryMB  int `json:",omitempty"`
	Pids      int `json:",omitempty"`
	OpenFiles int `json:",omitempty"`
	StateMB   int `json:",omitempty"`
}

// The default limits. The limits of drivers are far above their own needs, because tasks
// may start as children of their processes.
const (
	driverMemoryMB = 1024
	driverPids     = 16384
	smallMemoryMB  = 512
	smallPids      = 512
	smallOpenFiles = 4096
	smallStateMB   = 256
)

// deviceGroups are the groups, where a machine has them, that own the devices which
// device plugins look after.
var deviceGroups = []string{"render", "video"}

// networkCapabilities are the capabilities of network plugins, which make namespaces,
// interfaces and rules, and run programs that do.
var networkCapabilities = []string{"net_admin", "net_raw", "net_bind_service", "sys_admin"}

// volumeCapabilities are those of storage plugins, which mount, look into directories of
// others and give files to users.
var volumeCapabilities = []string{"chown", "dac_override", "dac_read_search", "fowner", "mknod", "sys_admin", "sys_resource"}

// defaults are the rights of a profile. A driver starts tasks, which may be root's and
// have whatever their driver has: it has the rights of the agent.
func defaults(profile string) Rights {
	if profile == ProfileDriver {
		return Rights{
			Profile: profile, Capabilities: []string{allCapabilities}, Network: true,
			MemoryMB: driverMemoryMB, Pids: driverPids,
		}
	}
	if profile == ProfileNetwork { // it mounts namespaces, which a process with restricted files cannot
		return Rights{
			Profile: profile, Capabilities: networkCapabilities, NoNewPrivileges: true, Network: true,
			MemoryMB: smallMemoryMB, Pids: smallPids, OpenFiles: smallOpenFiles, StateMB: smallStateMB,
		}
	}
	if profile == ProfileVolume { // it mounts, too
		return Rights{
			Profile: profile, Capabilities: volumeCapabilities, NoNewPrivileges: true, Network: true,
			MemoryMB: smallMemoryMB, Pids: smallPids, OpenFiles: smallOpenFiles, StateMB: smallStateMB,
		}
	}
	r := Rights{
		Profile: profile, OwnUser: true, NoNewPrivileges: true, RestrictFiles: true, RestrictSyscalls: true,
		MemoryMB: smallMemoryMB, Pids: smallPids, OpenFiles: smallOpenFiles, StateMB: smallStateMB,
	}
	switch profile {
	case ProfileDevice:
		r.Groups = deviceGroups
	case ProfileRegistry: // it asks another machine, with keys that may be readable by the agent's user only
		r.OwnUser, r.Network = false, true
	}
	return r
}

// RightsOf returns the rights of a plugin with a profile, changed by the operator's
// settings.
func RightsOf(profile string, a Access) Rights {
	r := defaults(cmp.Or(a.Profile, profile))
	if a.User != "" {
		r.User, r.OwnUser = a.User, false
	}
	if a.Groups != nil {
		r.Groups = a.Groups
	}
	if a.Capabilities != nil {
		r.Capabilities = nil
		for _, name := range a.Capabilities {
			r.Capabilities = append(r.Capabilities, strings.TrimPrefix(strings.ToLower(name), "cap_"))
		}
	}
	if a.NoNewPrivileges != nil {
		r.NoNewPrivileges = *a.NoNewPrivileges
	}
	if a.Filesystem != "" {
		r.RestrictFiles = a.Filesystem == Restricted
	}
	r.Read, r.Write = slices.Clone(a.ReadPaths), slices.Clone(a.WritePaths)
	if a.Syscalls != "" {
		r.RestrictSyscalls = a.Syscalls == Restricted
	}
	if a.Network != nil {
		r.Network = *a.Network
	}
	for _, n := range []struct {
		limit *int
		asked int
	}{{&r.MemoryMB, a.MemoryMB}, {&r.Pids, a.Pids}, {&r.OpenFiles, a.OpenFiles}, {&r.StateMB, a.StateMB}} {
		if n.asked != 0 {
			*n.limit = max(0, n.asked)
		}
	}
	return r
}

// AllCapabilities reports whether the plugin keeps every capability of the agent.
func (r *Rights) AllCapabilities() bool { return slices.Contains(r.Capabilities, allCapabilities) }

// Limits are the limits of the plugin's processes together.
func (r *Rights) Limits() Limits { return Limits{MemoryMB: r.MemoryMB, Pids: r.Pids} }
