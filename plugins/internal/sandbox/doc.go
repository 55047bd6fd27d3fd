// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package sandbox isolates a task from its machine: namespaces, a private root
// file system of read-only mounts, cgroups with limits, capabilities, a seccomp
// filter and another user. It owns how a process gets into a sandbox (Start) and
// how a second one joins it (Enter), how one without is started (Fork) in cgroups and a
// network that are there already (Within), how a start is held back until it is written
// down (Hold), what a sandbox has used, and the reason why a machine cannot have one. It does not own which tasks there are, their logs
// and their ends (plugins/internal/supervisor) nor what a job may ask for (the
// drivers). Only plugins/internal/supervisor and plugins below plugins/ import it.
//
// # How a task gets there
//
// There is no helper program and no second start of our own binary. One operating
// system thread of the caller leaves the caller's namespaces, builds the root file
// system, drops capabilities, and forks; then that thread ends. All of this is
// state of a thread in Linux, so the rest of the process never sees it. What can
// only be done between fork and exec (user, seccomp filter, working directory) is
// a list of system calls, which a program of some 20 instructions in a memory file
// carries out one by one before it becomes the task (see program). A call that
// fails is named to the caller with its error.
//
// # Process 1
//
// A task is not process 1 of its pid namespace: to that one the kernel applies no
// default action of a signal, so that SIGTERM would not end "sleep", and nobody
// would reap what its children leave behind. Process 1 is the same small program
// with other calls (two pages, no heap, no Go): it mounts /proc, becomes nobody,
// has the kernel reap orphans (SIGCHLD ignored) and pauses for good. Its end is
// the end of every process of the namespace.
//
// docs/adr/0004-exec-isolation.md says why it is done this way.
package sandbox
