// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package supervisor runs the processes of exec-like tasks so that they survive the
// plugin that started them, the agent, and the supervisor itself. It owns the node's
// supervisor process and its parent, the keeper; the log files and the journal of
// its tasks; and the client with which a driver talks to the supervisor. It does not
// know what a task means to Drover (jobs, user names, command lookup): the drivers
// do. Only plugins below plugins/ import it.
//
// # Processes
//
// There are two processes for all tasks of a node. Both run this binary with a
// hidden argument (see Main), in sessions of their own:
//
//   - The supervisor is one epoll loop on one goroutine over the tasks' pidfds,
//     their log pipes and the clients' connections. A task costs it six file
//     descriptors and about 1 KB, but no goroutine, thread or process.
//   - The keeper is its parent. It holds the listening socket, restarts the
//     supervisor when it dies, and is the subreaper that then inherits the tasks,
//     so that their exit codes are not lost.
//
// # Isolated tasks
//
// If a spec has a Sandbox, sdk/isolation starts the task on a separate
// thread that exists only for this start, and the loop takes over the running task.
// An isolated task has one additional process, process 1 of its pid namespace, which
// the journal records. The task has ended when both have ended, which means that
// none of its processes is left.
//
// # Failures
//
// Agent or plugin killed: tasks and logs are not affected. The next client finds the
// supervisor by its socket. Exit codes are kept until the task is destroyed.
//
// Supervisor killed: the tasks become children of the keeper. The keeper starts a
// new supervisor within milliseconds, which adopts the tasks from the journal. The
// journal has their pid and start time, so a reused pid is never mistaken for a
// task. If a task ends in between, the keeper reaps it and writes its exit to the
// task's marker in pids/.
//
// Supervisor killed while it starts a task: a new process waits at its gate (see
// isolation.Hold) until its record is in the journal, and only then becomes the task.
// So for a start that is answered with success, the task is executed exactly once.
// The effect of a kill depends on its moment:
//
//   - Before the fork: the journal has only a spec. The next supervisor undoes
//     the start, and the client, which has lost its connection, repeats it.
//   - Between the fork and the record, or between the record and the opening of
//     the gate: the gate's pipe is closed when the supervisor dies, and the
//     process exits. Its report (KEY.start) is empty, so the start is undone and
//     repeated.
//   - After the gate was opened: the process continues by itself and writes this
//     to its report, which it keeps locked until it has become the task or has
//     failed. The next supervisor waits for that lock. It adopts the task, or
//     undoes the start if the command cannot be run, so that the client gets the
//     reason.
//   - Before the answer: the client asks for the task and finds it.
//
// If programs in memory files cannot be run (vm.memfd_noexec = 2, and processors
// other than amd64 and arm64), a raw task cannot be held at a gate. If the
// supervisor is killed between fork and record, the task is killed and started
// again.
//
// Supervisor hangs (stopped or stuck): the keeper checks every 3 s that it answers.
// If it has not answered for 10 s in which the keeper itself was running, the keeper
// kills it; so a pause of the whole machine kills nothing. The rest is as above.
//
// Late requests: starts and signals carry a deadline after which they are rejected,
// because by then the client has reported a failure. A start is also rejected if its
// client is gone, and undone if its task is destroyed meanwhile. So no task starts
// that nobody knows about.
//
// Keeper killed: the supervisor becomes the keeper (by execve, so it keeps its pid
// and its children) and starts a new supervisor, which adopts the tasks as above. If
// both are killed, the next client starts a new pair. On Linux 6.15 and later the
// exit code of a task that ended in between still comes from its pidfd; on older
// kernels it is reported as unknown.
//
// Binary upgraded: Client.Upgrade makes the supervisor execute the new binary. The
// pid, the children, the socket and the data in the pipes are kept.
//
// Agent started in another mount namespace, as a service manager does that hides a part of
// the machine from it: each client that connects makes the supervisor execute its binary
// there (ADR 0133). Tasks that run stay where they are.
//
// # Logs
//
// A task's stdout and stderr are FIFOs that the task itself holds open for reading
// and writing. So a pipe always has a reader, the death of the supervisor cannot
// cause a SIGPIPE in a task, and output waits in the pipe (64 KiB) for the next
// supervisor. The keeper holds the FIFOs open too, from the moment the supervisor
// sends them, so that the last output of a task is kept even if it ends while there
// is no supervisor.
//
// Output is moved from the pipe to the file with splice(2). This removes data from
// the pipe and writes it in one system call, so no byte is lost or duplicated
// whenever the supervisor dies. After each turn with output the loop waits a
// millisecond for more, and it enlarges a pipe that was full (256 KiB), so that fast
// writers cause few wake-ups. If the file cannot be written, for example because the
// disk is full, output is dropped and counted; the task never blocks.
//
// Log files are opened component by component below the alloc directory without
// following links, and anything that is not a regular file with a single name is
// replaced. So a task cannot redirect its log to another file.
package supervisor
