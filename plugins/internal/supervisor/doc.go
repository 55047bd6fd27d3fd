// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package supervisor runs the processes of exec-like tasks so that they outlive
// the plugin that started them, the agent, and the supervisor itself. It owns the
// node's supervisor process (its own parent, the keeper, included), the log files
// of its tasks, their journal, and the client by which a driver talks to it. It
// does not own what a task is to Drover (job, user names, look-up of commands):
// that is the driver's. Only plugins below plugins/ import it.
//
// # Processes
//
// There are two processes for all tasks of a node, both this binary under a
// hidden argument (see Main), both in a session of their own:
//
//   - the supervisor: one epoll loop on one goroutine over the tasks' pidfds,
//     their log pipes and the clients' connections. A task costs it six file
//     descriptors and about 1 KB, and no goroutine, thread or process.
//   - the keeper, its parent: it holds the listening socket, starts the
//     supervisor again when it dies, and is the subreaper that inherits its tasks
//     then, so that their exit codes are still known.
//
// # Isolated tasks
//
// A spec with a Sandbox is started beside the loop, by plugins/internal/sandbox on
// a thread that lives for that start only, and taken over by the loop when it runs.
// Such a task has one process more, process 1 of its pid namespace; the journal
// names it, and the task has ended when both have, that is, when no process of it
// is left.
//
// # What survives what
//
// Agent or plugin killed: nothing happens to tasks or logs; the next client
// finds the supervisor by its socket. Ends are kept until they are destroyed.
//
// Supervisor killed: the tasks become the keeper's children, the keeper starts a
// new supervisor within milliseconds, and that one adopts the tasks by the
// journal (pid and start time, so that a reused pid is never taken for a task).
// A task that ends meanwhile is reaped by the keeper, which writes the wait
// status into the task's marker in pids/.
//
// Supervisor killed while a task starts: a new process waits at its gate (see
// sandbox.Hold) until its record is in the journal, and only then becomes the task. So
// a task's first instruction is executed once for a start that is answered with
// success. What a kill does depends on its moment:
//
//   - before the fork: the journal has a spec and nothing else. The start is undone,
//     and the client, which has lost its connection, asks for it again.
//   - between the fork and the record, or between the record and the opening of the
//     gate: the gate's pipe ends with the supervisor, and the process ends at it. Its
//     report (KEY.start) is empty: undone, and asked for again.
//   - after the gate was opened: the process goes on by itself and says so in its
//     report, which it keeps locked until it is the task or has failed. The next
//     supervisor waits for that lock. It adopts the task, or undoes the start of a
//     command that cannot be run, so that the client hears why.
//   - before the answer: the client asks for the task, and finds it.
//
// Where programs in memory files cannot be run (vm.memfd_noexec = 2, and processors
// other than amd64 and arm64) a raw task is not held back: one whose supervisor is
// killed between fork and record is killed, and started a second time.
//
// Supervisor hangs (stopped, or stuck): the keeper asks it every 3 s whether it
// answers and kills one that has not for 10 s in which the keeper itself ran, so
// that a pause of the whole machine replaces nothing. What follows is as above.
//
// A request that waited too long: starts and signals carry the moment until which
// they may be begun, and are refused after it, since whoever asked has told others
// that they failed. A start is also refused when its client is gone, and undone when
// its task is destroyed meanwhile: nothing comes up that nobody knows of.
//
// Keeper killed: the supervisor becomes the keeper (execve: same process, same
// children) and starts a new supervisor, which adopts the tasks as above. Both killed:
// the next client starts a new pair; on Linux 6.15 and later the exit code still comes from the pidfd, on
// older kernels the end of such a task is reported with the exit code unknown.
//
// Binary upgraded: Client.Upgrade makes the supervisor execve the new binary: the
// pid, the children, the socket and the data in the pipes all stay.
//
// # Logs
//
// A task's stdout and stderr are FIFOs, which the task itself holds open for
// reading and writing: so a pipe never lacks a reader, no end of the supervisor
// can send SIGPIPE to a task, and its output waits in the pipe (64 KiB) for the
// next supervisor. The keeper holds the FIFOs open too, from the moment in which the
// supervisor hands them on, so that the last words of a task that ends while there is no
// supervisor are kept. Output goes from pipe to
// file by splice(2): what was taken from the pipe is in the file, whenever the
// supervisor dies, with no byte lost or doubled. After each turn in which output
// came, the loop waits a millisecond for more, and a pipe that was once full is made
// larger (256 KiB), so that fast writers cost few wake-ups. If the file cannot be written
// (full disk), output is dropped and counted and the task never waits.
//
// Log files are opened component by component beneath the alloc directory
// without following links, and anything but a regular file with one name is
// replaced: a task cannot redirect its log to a file that is not its own.
package supervisor
