// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"io"
	"time"
)

// Driver runs tasks of one driver name. Several drivers may live in one plugin
// process. All methods may be called at the same time from many goroutines.
//
// Errors carry a class of sdk/errdefs; each method names the classes that
// callers act on. Any method may also return DeadlineExceeded or Canceled when
// its ctx ends. See the package documentation for the rules that hold for all.
type Driver interface {
	// Info says what the driver is called, what it can do and which
	// configuration it accepts. It is asked once per process, before anything
	// else, does no work and always answers the same.
	Info() Info

	// SetConfig hands over the driver's agent configuration: the JSON object of
	// a block that Info().ConfigSchema has accepted, with defaults filled in.
	// It is called once before the first Fingerprint, also when the block is
	// empty ("{}"), and again when the configuration changes; running tasks are
	// not affected. InvalidArgument: the configuration cannot work as it is.
	SetConfig(ctx context.Context, config []byte) error

	// Fingerprint reports what the driver found on this machine: once at once,
	// then whenever something changes. The driver closes the channel when ctx
	// ends. It must not block on a daemon that is away: it reports that instead.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)

	// StartTask starts a task and returns when it runs, with the handle by which
	// RecoverTask finds it again in another process. ctx bounds the start only,
	// never the life of the task. A start that fails leaves nothing behind; where
	// ctx ends first, a DestroyTask with force follows, and nothing may come up
	// after that.
	// AlreadyExists: a task of that ID is known (running or not yet destroyed).
	// InvalidArgument: the task's config can never start; not retried.
	// Anything else may be retried according to the restart policy, unless
	// errdefs.WithRetryable says otherwise.
	StartTask(ctx context.Context, task *TaskConfig) (*Handle, *NetworkOverride, error)

	// RecoverTask makes a task known again that another process of this driver
	// started, whether it still runs or has ended meanwhile. A task that is
	// already known is no error. NotFound: it is certain that the task is gone
	// without a trace; the caller takes it as lost. Unavailable: it cannot be
	// said yet; the caller tries again and does not take the task as dead.
	RecoverTask(ctx context.Context, handle *Handle) error

	// WaitTask returns when the task has ended, at once if it has. It may be
	// called any number of times until the task is destroyed. ctx carries no
	// deadline. NotFound: no such task. Unavailable: the result cannot be known
	// now; the caller recovers the task and waits again.
	WaitTask(ctx context.Context, taskID string) (ExitResult, error)

	// StopTask sends signal (the driver's own choice if empty), and kills the
	// task when timeout passes and it still runs. It returns when the task has
	// ended with all processes that it started, those killed if need be. A task
	// that has already ended is no error. ctx may end earlier than timeout: the
	// kill is then still carried out. NotFound: no such task. InvalidArgument:
	// unknown signal.
	StopTask(ctx context.Context, taskID string, timeout time.Duration, signal string) error

	// DestroyTask forgets a task that has ended and frees what it held; it keeps
	// log files. With force a running task is killed first. A task that is not
	// known is no error. FailedPrecondition: it still runs and force is false.
	DestroyTask(ctx context.Context, taskID string, force bool) error

	// InspectTask says how a task is. NotFound: no such task.
	InspectTask(ctx context.Context, taskID string) (*TaskStatus, error)

	// TaskStats samples the use of resources of all running tasks every
	// interval, the first time at once. One call serves all tasks of the
	// driver, and nothing is sampled while nobody listens. The driver closes the
	// channel when ctx ends. A slow reader gets fewer samples, never old ones.
	// Every does all that. InvalidArgument: an interval that is not above zero.
	TaskStats(ctx context.Context, interval time.Duration) (<-chan []TaskStats, error)

	// SignalTask sends a signal to the task's main process. NotFound: no such
	// task. FailedPrecondition: it has ended. InvalidArgument: unknown signal.
	// Unimplemented: see Capabilities.SendSignals.
	SignalTask(ctx context.Context, taskID string, signal string) error

	// ExecTask runs a command inside the task and returns its result when it
	// has ended and all its output is written. When ctx ends the command is
	// killed. NotFound: no such task. FailedPrecondition: it does not run.
	// InvalidArgument: there is no such command. Unimplemented: see
	// Capabilities.Exec.
	ExecTask(ctx context.Context, taskID string, opts ExecOptions, stream ExecStream) (ExitResult, error)

	// TaskEvents reports what happens inside the driver that a user should see
	// in the events of a task, as "downloading image". Events that nobody reads
	// are dropped. The driver closes the channel when ctx ends.
	TaskEvents(ctx context.Context) (<-chan TaskEvent, error)
}

// ExecOptions says what ExecTask runs.
type ExecOptions struct {
	// Command is the program and its arguments; the program is looked up as
	// the task's own command is.
	Command []string
	// TTY asks for a terminal. Everything the command writes then comes on
	// Stdout, and Size is the terminal's first size if it is set.
	TTY  bool
	Size TerminalSize
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Height int
	Width  int
}

// ExecStream is the input and output of a command that ExecTask runs. The caller
// owns the ends; the driver closes none of them. Stdin ends with io.EOF when the
// user closes it; the driver then closes the command's own input. A driver must
// not wait for a Read of Stdin before it returns: the command may end first.
type ExecStream struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Resize delivers new sizes of the terminal. It is nil or never closed.
	Resize <-chan TerminalSize
}

// Lister is a Driver that can say which tasks it has on this machine. Tasks that
// outlive their driver's process can become nobody's: their start was interrupted,
// or the agent lost its state. The agent asks now and then and has those that no
// allocation owns destroyed. A driver whose tasks end with its process needs none.
type Lister interface {
	// ListTasks returns the handles of all tasks of this driver that are there,
	// running or not yet destroyed, also of those that this process was never told
	// of. It lists nothing that is not this agent's. DestroyTask with force ends each
	// of them, and RecoverTask takes it over, as after a start whose answer was lost;
	// a handle without State is of a task that can only be destroyed. Unavailable: it
	// cannot be said now.
	ListTasks(ctx context.Context) ([]*Handle, error)
}
