// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package cgroup makes cgroups for tasks whose drivers want one from the host. These are the
// drivers that were built for Nomad, whose executors expect cgroups with certain names, and
// the drivers that announce it. It owns the tree of these groups, the sharing and reserving of
// cores in the tree, and the removal of groups. It does not know allocs or drivers, or when a
// task ends. The drivers exec, raw_exec and java do not use it: they make groups themselves.
// Only core/agent and packages below it may import it.
//
// # The tree
//
// Nothing is made before a task needs it. On version 1, below /sys/fs/cgroup:
//
//	{freezer,cpu,memory}/nomad/ALLOC.TASK   each task
//	cpuset/nomad/share                      the tasks without cores, together
//	cpuset/nomad/reserve/ALLOC.TASK         each task with cores
//
// and on version 2:
//
//	nomad.slice/share.slice/ALLOC.TASK.scope    a task without cores
//	nomad.slice/reserve.slice/ALLOC.TASK.scope  a task with cores
//
// Plugins built for Nomad expect these names, so two agents on one machine use the same tree.
// Therefore the reserved cores are read from the tree, and the cores that this agent has
// reserved for tasks without a group in the tree are added. An agent marks each group that it
// makes with its own name, in an extended attribute, and removes only groups with that mark.
package cgroup
