// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package isolation isolates tasks from their machine, for drivers whose tasks are
// processes: namespaces, a private root file system of read-only mounts, capabilities, a
// seccomp filter and another user. It is what Drover's own drivers exec and java use, on
// Linux 5.12 or later, amd64 and arm64, as root. This is the manual for authors.
//
// # In a driver
//
// Fingerprint asks Unavailable, and is undetected with that reason if it is not "". The
// driver announces HostCgroupLimited, so that the host makes a cgroup with the limits of
// each task, and FSIsolationChroot with MountConfigs, because ForTask obeys mounts.
// StartTask then does this:
//
//	cfg, err := isolation.ForTask(task, stateDir) // directories, mounts, devices, network
//	cfg.Scratch = scratch                         // an empty directory of the plugin's own
//	cfg.Chroot = isolation.System()               // what the task sees of the machine
//	cfg.Bounding, cfg.Ambient, err = isolation.Capabilities(isolation.DefaultCapabilities(), nil, nil)
//	cfg.Command = "/bin/sh" // looked up inside the sandbox
//	cgroups := task.Cgroup.Paths()
//	err = isolation.LimitDevices(cgroups, cfg.Devices)
//	started, err := isolation.Start(cfg, cgroups, process, hold)
//
// ExecTask runs a command in a task with OpenTarget and Enter. Started tells the pids to
// keep in the handle; Started.Wait waits for the task and ends what it left behind. A
// Config can be stored as JSON: later versions of this package read what earlier ones
// wrote.
//
// # One task or none
//
// A plugin can be killed at any moment, also between a start and the record of it. So a
// process is held at a gate before it becomes its task, until Hold.Write has recorded it,
// and ends if the plugin ends first. Began tells the next process of the plugin, by
// Hold.Report, whether the task may have run: one that did not can be started again.
//
// # What it does not do
//
// It makes no cgroups and has no limits of cpu and memory: the host does that. It keeps
// no list of tasks, no logs and no exit codes. A task as root has the machine's user root
// without all but the given capabilities; user namespaces are not used. Without NetworkNS
// a task is in the machine's network. Paths of a Config are trusted down to TaskDir and
// SharedDir: resolve nothing there yourself, the task may have put a link.
//
// Fork starts a process without isolation, in existing cgroups and a network namespace
// (Within) and held in the same way.
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
package isolation
