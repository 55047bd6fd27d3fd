// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"maps"
	"slices"
)

// HostCgroup says which cgroup a driver wants from the host for each of its tasks.
type HostCgroup string

// The cgroups. A host treats an unknown value as HostCgroupNone.
const (
	HostCgroupNone HostCgroup = "" // no cgroup from the host: the driver or its daemon makes one
	// HostCgroupBare is a cgroup without limits: the driver sets them if it wants any.
	HostCgroupBare HostCgroup = "bare"
	// HostCgroupLimited is a cgroup that enforces TaskConfig.Resources: memory, the share
	// of the cpu, and cores.
	HostCgroupLimited HostCgroup = "limited"
)

// Cgroup is the cgroup of one run of a task. Its processes must enter it before anything
// of the task runs: see Start. The host kills what is left in it, and removes it, when
// the task is destroyed; the driver need not.
type Cgroup struct {
	Version int // version of the machine's cgroups: 1 or 2
	// Dirs are absolute directories by controller ("cpu", "cpuset", "freezer", "memory" on
	// version 1; also "io" and "pids" on version 2). On version 1 each controller has a
	// directory of its own, and the cpuset directory may be shared with other tasks. On
	// version 2 all are the same one.
	Dirs map[string]string
}

// Paths returns the directories without duplicates, as sdk/isolation takes them. A nil
// cgroup has none.
func (c *Cgroup) Paths() []string {
	if c == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(maps.Values(c.Dirs)))
}
