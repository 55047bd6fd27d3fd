// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package cgroup makes cgroups for tasks whose drivers want one from the host: those
// built for Nomad, whose executors expect them under certain names, and those that
// announce it. It owns the tree of these groups, the cores that are shared and reserved
// in it, and their removal. It does not know allocs, drivers or when a task ends, and
// the drivers exec, raw_exec and java have groups of their own. Only core/agent and
// packages below it may import it.
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
// The names are those that plugins built for Nomad expect, so two agents on a machine
// share the tree. Which cores are reserved is therefore read from the tree; the
// reservations of this agent for tasks that are not in the tree are added. What an
// agent has made carries its name in an extended attribute: it removes nothing of
// others.
package cgroup
