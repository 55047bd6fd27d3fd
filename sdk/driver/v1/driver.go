// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"io"
	"time"
)

// Driver runs the tasks of one driver name. A plugin process may serve several
// drivers. All methods may be called concurrently.
//
// Errors carry a class of sdk/errdefs; each method lists the classes that callers act
// on. Any method may also return DeadlineExceeded or Canceled when its ctx ends. The
// package documentation has the rules that apply to all methods.
type Driver interface {
	// Info returns the driver's name, its capabilities and the schemas of its
	// configuration. It is called once per process, before anything else. It does no
	// work and always returns the same value.
	Info() Info

	// SetConfig passes the driver's agent configuration: a JSON object that was
	// validated against Info().ConfigSchema, with defaults filled in. It is called
	// once before the first Fingerprint, even if the block is empty ("{}"), and again
	// whenever the configuration changes; running tasks are not affected.
	// InvalidArgument: the driver cannot work with this configuration.
	SetConfig(ctx context.Context, config []byte) error

	// Fingerprint reports what the driver found on this machine, once when it is
	// called and then whenever something changes. The driver closes the channel when
	// ctx ends. It must not block while its daemon is unreachable, but report that.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)

	// StartTask starts a task and returns once it runs, with the handle by which
	// RecoverTask in another process finds it. ctx limits the start only, never the
	// life of the task. A failed start leaves nothing behind. If ctx ends during the
	// start, the caller calls DestroyTask with force, and nothing of the task may
	// start after that. AlreadyExists: a task with this ID is known, running or not
	// yet destroyed. InvalidArgument: the task can never start with this config; the
	// start is not retried. All other errors may be retried according to the restart
	// policy, unless errdefs.WithRetryable says otherwise.
	StartTask(ctx context.Context, task *TaskConfig) (*Handle, *NetworkOverride, error)

	// RecoverTask takes over a task that another process of this driver started,
	// whether it still runs or has ended since. It is not an error if the task is
	// already known. NotFound: it is certain that nothing of the task is left; the
	// caller treats it as lost. Unavailable: the driver cannot tell yet; the caller
	// retries and does not treat the task as dead.
	RecoverTask(ctx context.Context, handle *Handle) error

	// WaitTask returns when the task has ended, or at once if it already has. It may
	// be called any number of times until the task is destroyed. Its ctx has no
	// deadline. NotFound: there is no such task. Unavailable: the result cannot be
	// determined now; the caller recovers the task and waits again.
	WaitTask(ctx context.Context, taskID string) (ExitResult, error)

	// StopTask sends signal (the driver's default if empty) and kills the task if it
	// still runs after timeout. It returns once the task and all processes that it
	// started have ended; those that are left are killed. It is not an error if the
	// task has already ended. ctx may end before timeout: the driver must still carry
	// out the kill. NotFound: there is no such task. InvalidArgument: unknown signal.
	StopTask(ctx context.Context, taskID string, timeout time.Duration, signal string) error

	// DestroyTask forgets a task that has ended and frees its resources, except its
	// log files. With force it first kills a running task. It is not an error if the
	// task is unknown. A process that does not know the task must look for it: an
	// earlier process may have been killed in the middle of StartTask, and what it
	// began must be ended and must not begin later. FailedPrecondition: the task still
	// runs and force is false.
	DestroyTask(ctx context.Context, ref TaskRef, force bool) error

	// InspectTask returns the status of a task. NotFound: there is no such task.
	InspectTask(ctx context.Context, taskID string) (*TaskStatus, error)

	// TaskStats samples the resource usage of all running tasks once when it is called
	// and then at every interval. One call serves all tasks of the driver, and the
	// driver must not sample while no stream is open. It closes the channel when ctx
	// ends. A slow reader must receive fewer samples, never outdated ones. Every
	// implements all of this. InvalidArgument: interval is not positive.
	TaskStats(ctx context.Context, interval time.Duration) (<-chan []TaskStats, error)

	// SignalTask sends a signal to the main process of the task. NotFound: there is no
	// such task. FailedPrecondition: it has ended. InvalidArgument: unknown signal.
	// Unimplemented: see Capabilities.SendSignals.
	SignalTask(ctx context.Context, taskID string, signal string) error

	// ExecTask runs a command inside the task. It returns the result once the command
	// has ended and all its output is written. When ctx ends the command is killed, with
	// the processes that it has started.
	// NotFound: there is no such task. FailedPrecondition: it is not running.
	// InvalidArgument: there is no such command. Unimplemented: see Capabilities.Exec.
	ExecTask(ctx context.Context, taskID string, opts ExecOptions, stream ExecStream) (ExitResult, error)

	// TaskEvents reports events inside the driver that belong in the events of a task,
	// such as "downloading image", and the Progress of long starts. Events are dropped
	// while nobody reads them. The driver closes the channel when ctx ends.
	TaskEvents(ctx context.Context) (<-chan TaskEvent, error)
}

// ExecOptions describes the command that ExecTask runs.
type ExecOptions struct {
	// Command is the program and its arguments. The program is looked up in the same
	// way as the task's own command.
	Command []string
	// TTY requests a terminal. All output of the command is then written to Stdout.
	// Size is the initial size of the terminal, if it is set.
	TTY  bool
	Size TerminalSize
	// User is the user of the command, by name or id as the task knows it; empty means
	// the user of the task. Directory is an absolute path as the task sees it; empty means
	// the directory of the task. Env is added to the environment of the task. The host
	// sets only those that Capabilities.ExecOptions names.
	User      string
	Directory string
	Env       map[string]string
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Height int
	Width  int
}

// ExecStream is the input and output of a command that ExecTask runs. The caller owns
// the readers and writers; the driver closes none of them. Stdin returns io.EOF when
// the user closes it; the driver then closes the command's input. ExecTask must not
// wait for a Read of Stdin before it returns, since the command may end first.
type ExecStream struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Resize delivers new sizes of the terminal. It may be nil, and is never closed.
	Resize <-chan TerminalSize
}

// Lister is implemented by drivers that can list their tasks on this machine. A task
// that outlives the driver's process can lose its owner: its start was interrupted, or
// the agent lost its state. The agent lists the tasks at intervals and destroys those
// that belong to no alloc. Drivers whose tasks end with the process need not implement
// it.
type Lister interface {
	// ListTasks returns the handles of all existing tasks of this driver, running or
	// not yet destroyed, including those that this process has not been told about. It
	// lists only tasks of this agent. The caller may destroy each with DestroyTask and
	// force, or take it over with RecoverTask, as after a start whose answer was lost.
	// A handle without State belongs to a task that can only be destroyed.
	// Unavailable: the tasks cannot be listed now.
	ListTasks(ctx context.Context) ([]*Handle, error)
}
