// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/breaker"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Proxy is a driver whose plugin process may be replaced at any time. It knows the
// handles of all tasks that were started or recovered through it, and recovers them in
// each new process before it admits calls, so callers that wait for a task do not
// notice a restart. A call that is in progress when the process ends returns
// Unavailable: it may or may not have been carried out.
type Proxy struct {
	name   string
	limits Limits

	mu      sync.Mutex
	info    Info
	current Driver
	// generation is the number of the current process; it also identifies the process
	// in which a task was last known. issued is the highest number used, and running
	// counts the calls in progress in each process.
	generation uint64
	issued     uint64
	running    map[uint64]int
	// serving ends when the current process is replaced or lost: waits and streams
	// then move to the next one.
	serving context.Context
	retire  context.CancelFunc
	// changed is closed and replaced at every attach, detach and close.
	changed chan struct{}
	closed  bool
	reason  error
	fate    fate  // of the last process that was lost
	refuses error // why no task may start; nil if tasks may
	tasks   map[string]*task
	gone    map[string]error // by task: why it could not be recovered, until it is destroyed
	lists   bool             // the driver can list its tasks
	// calls is the number of calls in progress; the last one ended at used.
	calls int
	used  time.Time

	hooks   Hooks
	breaker *breaker.Breaker
}

// task is the proxy's record of one task.
type task struct {
	handle *Handle
	// mu serializes recovery of the task. generation is the number of the process that knows
	// the task.
	mu         sync.Mutex
	generation uint64
}

// Limits limits the duration of calls, even if their ctx has no deadline.
type Limits struct {
	// Ready is how long a call waits for a plugin that is being restarted.
	Ready time.Duration
	// Call limits quick calls, Start the start of a task (which may fetch an image),
	// and StopExtra is added to the timeout of a stop.
	Call      time.Duration
	Start     time.Duration
	StopExtra time.Duration
	// Retry is the pause before WaitTask is repeated after the driver could not determine
	// the result.
	Retry time.Duration
	// Breaker configures when calls to a driver that does not answer fail at once.
	Breaker breaker.Config
}

// DefaultLimits are the bounds of a host without other settings.
func DefaultLimits() Limits {
	return Limits{Ready: 5 * time.Second, Call: time.Minute, Start: 30 * time.Minute, StopExtra: 30 * time.Second, Retry: time.Second}
}

// Hooks are callbacks to the owner of the process. Each may be nil and is called
// without a lock of the proxy held. All except EndLeftovers must return at once.
type Hooks struct {
	// Demand means that a call needs a process and there is none.
	Demand func()
	// Answering means that the driver has stopped answering, or answers again.
	Answering func()
	// EndLeftovers must end the processes that a failed start of the task, which began
	// at begun, has left behind, and return their number. The driver was already told to
	// destroy the task.
	EndLeftovers func(ctx context.Context, task *TaskConfig, begun time.Time) (killed int)
	// Starting means that the driver is to start processes that may enter the cgroup of a
	// task: those of a new task, or a command in one. The function that it returns is called
	// when the start has ended, successfully or not, and when the command has ended: nobody
	// says when its process has entered the cgroup.
	Starting func() (ended func())
}

// NewProxy makes a proxy with no process yet.
func NewProxy(info Info, limits Limits, hooks Hooks) *Proxy {
	serving, retire := context.WithCancel(context.Background())
	return &Proxy{
		name: info.Name, info: info, limits: limits, changed: make(chan struct{}), tasks: map[string]*task{}, gone: map[string]error{},
		running: map[uint64]int{}, serving: serving, retire: retire,
		hooks: hooks, breaker: breaker.New(fmt.Sprintf("driver %q", info.Name), limits.Breaker, hooks.Answering),
	}
}

// Attach admits calls to d, after it has recovered the known tasks in it. A task that
// could not be recovered is tried again at its next call.
func (p *Proxy) Attach(ctx context.Context, d Driver) {
	p.mu.Lock()
	p.succeed(p.issue())
	gen := p.generation
	known := p.known()
	p.mu.Unlock()

	p.breaker.Reset()
	p.recoverAll(ctx, d, gen, known)

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation != gen || p.closed {
		return
	}
	p.info, p.current, p.reason = d.Info(), d, nil
	p.signal()
}

// recoverWorkers bounds how many tasks are recovered at the same time.
const recoverWorkers = 16

func (p *Proxy) recoverAll(ctx context.Context, d Driver, gen uint64, known []*task) {
	slots := make(chan struct{}, recoverWorkers)
	var wg sync.WaitGroup
	for _, t := range known {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			// The result is stored in t, or determined again at the next call.
			_ = p.ensure(ctx, d, gen, t)
		})
	}
	wg.Wait()
}

// Detach holds back calls because the process is gone.
func (p *Proxy) Detach(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.reason, p.fate = nil, reason, fate{p.generation, reason}
	p.succeed(p.issue())
	p.signal()
}

// Retire detaches an unused process. If a task is known or a call is in progress, it
// changes nothing and returns false.
func (p *Proxy) Retire(reason error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls > 0 || len(p.tasks) > 0 {
		return false
	}
	p.current, p.reason = nil, reason
	p.succeed(p.issue())
	p.signal()
	return true
}

// Close makes every call and wait return Unavailable.
func (p *Proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.closed = nil, true
	p.retire()
	p.signal()
}

// Idle reports whether no task is known and no call is under way, and when the
// last call has ended (zero: there was none). Streams are no calls.
func (p *Proxy) Idle() (since time.Time, idle bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, p.calls == 0 && len(p.tasks) == 0
}

// Unanswering returns since when calls fail at once because the driver does not
// answer, and why; nil if it answers.
func (p *Proxy) Unanswering() (since time.Time, why error) { return p.breaker.Open() }

// begin records the begin of a call; the returned function records its end.
func (p *Proxy) begin() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls--
		p.used = time.Now()
	}
}

// issue returns a number for a process. p.mu must be held.
func (p *Proxy) issue() uint64 {
	p.issued++
	return p.issued
}

// succeed makes gen the current generation and ends the previous one. p.mu must be
// held.
func (p *Proxy) succeed(gen uint64) {
	p.retire()
	p.generation = gen
	p.serving, p.retire = context.WithCancel(context.Background())
}

// known returns all tasks; p.mu is held.
func (p *Proxy) known() []*task {
	out := make([]*task, 0, len(p.tasks))
	for _, t := range p.tasks {
		out = append(out, t)
	}
	return out
}

func (p *Proxy) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Info returns the Info of the newest process.
func (p *Proxy) Info() Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info
}

// state returns a snapshot of the state on which calls depend.
func (p *Proxy) state() (d Driver, gen uint64, changed <-chan struct{}, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.generation, p.changed, p.closed
}

// acquire returns the driver's process and waits up to wait for one (0: until ctx
// ends). It does not request a process if none is kept running. The caller must call
// leave with the returned number.
func (p *Proxy) acquire(ctx context.Context, wait time.Duration) (Driver, uint64, error) {
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		d, gen, changed, closed := p.enter()
		if closed {
			return nil, 0, errdefs.Unavailablef("driver %q: the plugin host is closed", p.name)
		}
		if d != nil {
			return d, gen, nil
		}
		select {
		case <-changed:
		case <-timeout:
			return nil, 0, p.away()
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// enter does what state does, and also counts a call in the returned process.
func (p *Proxy) enter() (d Driver, gen uint64, changed <-chan struct{}, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && !p.closed {
		p.running[p.generation]++
	}
	return p.current, p.generation, p.changed, p.closed
}

// leave ends a call in the process of generation gen.
func (p *Proxy) leave(gen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[gen]--; p.running[gen] > 0 {
		return
	}
	delete(p.running, gen)
	if gen != p.generation {
		p.signal() // wakes Drained, which waits for the last call of an old process
	}
}

// while returns a context that also ends when the process of generation gen no
// longer serves.
func (p *Proxy) while(ctx context.Context, gen uint64) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	serving, current := p.serving, p.generation
	p.mu.Unlock()
	if current != gen {
		cancel()
		return ctx, cancel
	}
	unlink := context.AfterFunc(serving, cancel)
	return ctx, func() { unlink(); cancel() }
}

func (p *Proxy) away() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason != nil {
		return errdefs.Unavailablef("driver %q: its plugin does not run now: %w", p.name, p.reason)
	}
	return errdefs.Unavailablef("driver %q: its plugin does not run yet", p.name)
}

// forCall returns the driver's process for a call, and requests one if none runs.
func (p *Proxy) forCall(ctx context.Context) (Driver, uint64, error) {
	if d, _, _, _ := p.state(); d == nil && p.hooks.Demand != nil {
		p.hooks.Demand()
	}
	return p.acquire(ctx, p.limits.Ready)
}

// forTask acquires the process in which the task is known, after recovering it if
// necessary. Calls for tasks that are unknown to the proxy are passed to the driver.
// The number of the process is also returned with an error of the task.
func (p *Proxy) forTask(ctx context.Context, taskID string, acquire func(context.Context) (Driver, uint64, error)) (Driver, uint64, error) {
	d, gen, err := acquire(ctx)
	if err != nil {
		return nil, 0, err
	}
	p.mu.Lock()
	t, gone := p.tasks[taskID], p.gone[taskID]
	p.mu.Unlock()
	if gone != nil {
		p.leave(gen)
		return nil, gen, gone
	}
	if t == nil {
		return d, gen, nil
	}
	if err := p.ensure(ctx, d, gen, t); err != nil {
		p.leave(gen)
		return nil, gen, err
	}
	return d, gen, nil
}

// ensure makes t known in the process of generation gen.
func (p *Proxy) ensure(ctx context.Context, d Driver, gen uint64, t *task) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.generation >= gen {
		return nil
	}
	err := p.call(ctx, p.limits.Call, func(ctx context.Context) error { return d.RecoverTask(ctx, t.handle) })
	if errdefs.IsNotFound(err) {
		lost(ctx, d, t.handle)
		p.lose(t.handle.TaskID, err)
	}
	if err == nil {
		t.generation = gen
	}
	return err
}

func (p *Proxy) remember(h *Handle, gen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks[h.TaskID] = &task{handle: h, generation: gen}
	delete(p.gone, h.TaskID)
}

// maxGone bounds the tasks whose loss is remembered.
const maxGone = 1024

// lose forgets a task that could not be recovered, and keeps the reason for those who
// ask for the task.
func (p *Proxy) lose(taskID string, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tasks, taskID)
	if len(p.gone) < maxGone {
		p.gone[taskID] = why
	}
}

func (p *Proxy) forget(taskID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tasks, taskID)
	delete(p.gone, taskID)
}

// settle converts the error of a closed connection to Unavailable: gRPC reports it as
// Canceled although the caller canceled nothing.
func settle(ctx context.Context, err error) error {
	if err != nil && errdefs.IsCanceled(err) && ctx.Err() == nil {
		return errdefs.Unavailablef("the plugin's connection was closed: %w", err)
	}
	return err
}
