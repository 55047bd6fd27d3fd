// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package sandbox isolates a task from its machine: namespaces, a private root file
// system of read-only mounts, cgroups with limits, capabilities, a seccomp filter
// and another user. It starts a process in a sandbox (Start), starts a second
// process in the same sandbox (Enter), starts a process without isolation (Fork) in
// existing cgroups and a network namespace (Within), holds a start back until it is
// recorded (Hold), measures the usage of a sandbox, and says why a machine cannot
// isolate tasks (Unavailable). It does not know which tasks there are, their logs or
// their exit codes (plugins/internal/supervisor does), nor what a job may ask for
// (the drivers do). Only plugins/internal/supervisor and plugins below plugins/
// import it.
//
// # How a task is started
//
// There is no helper program, and our own binary is not started again. One operating
// system thread of the caller leaves the caller's namespaces, builds the root file
// system, drops capabilities, and forks; then that thread ends. In Linux all of this
// is per-thread state, so the rest of the process is not affected. What can be done
// only between fork and exec (user, seccomp filter, working directory) is a list of
// system calls. A program of about 20 instructions in a memory file executes them
// one by one before it becomes the task (see program). If a call fails, the program
// reports the call and its error to the caller.
//
// # Process 1
//
// A task is not process 1 of its pid namespace. The kernel does not apply the
// default actions of signals to process 1, so SIGTERM would not end "sleep", and
// nobody would reap the task's orphans. Instead process 1 is the same small program
// with other calls (two pages, no heap, no Go): it mounts /proc, becomes nobody,
// ignores SIGCHLD so that the kernel reaps orphans, and pauses forever. When it
// ends, the kernel kills all processes of the namespace.
//
// docs/adr/0004-exec-isolation.md explains this design.
package sandbox
