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

// Proxy is a driver whose plugin process may be replaced at any time. It knows
// the handles of all tasks that were started or recovered through it, recovers
// them in each new process before it lets calls through, and so hides a restart
// from whoever waits for a task. A call that was under way when the process
// ended returns Unavailable: it may or may not have been carried out.
type Proxy struct {
	name   string
	limits Limits

	mu      sync.Mutex
	info    Info
	current Driver
	// generation numbers attached processes, so that it can be said in which one
	// a task was last known; issued is the newest number, and running counts the
	// calls that are under way in each.
	generation uint64
	issued     uint64
	running    map[uint64]int
	// serving ends when the current process no longer serves: waits and streams
	// then move to the next one.
	serving context.Context
	retire  context.CancelFunc
	// changed is closed and replaced at every attach, detach and close.
	changed chan struct{}
	closed  bool
	reason  error
	refuses error // why no task may start, if none may
	tasks   map[string]*task
	lists   bool // the driver says which tasks it has
	// calls are under way, and the last one ended at used.
	calls int
	used  time.Time

	hooks   Hooks
	breaker *breaker.Breaker
}

// task is what the proxy remembers of one task.
type task struct {
	handle *Handle
	// mu lets one caller at a time recover the task; generation is the process
	// in which it is known.
	mu         sync.Mutex
	generation uint64
}

// Limits bounds calls. Each call has the bound even if its ctx has none.
type Limits struct {
	// Ready is how long a call waits for a plugin that is being restarted.
	Ready time.Duration
	// Call bounds the quick calls, Start the start of a task (it may have to
	// fetch an image), and StopExtra is added to a stop's own timeout.
	Call      time.Duration
	Start     time.Duration
	StopExtra time.Duration
	// Retry is the pause before a task whose result the driver cannot tell now
	// is asked for again.
	Retry time.Duration
	// Breaker says when calls of a driver that does not answer fail at once.
	Breaker breaker.Config
}

// DefaultLimits are the bounds of a host that is not told otherwise.
func DefaultLimits() Limits {
	return Limits{Ready: 5 * time.Second, Call: time.Minute, Start: 30 * time.Minute, StopExtra: 30 * time.Second, Retry: time.Second}
}

// Hooks tell whoever runs the process. Each may be nil and is called without a
// lock of the proxy held; but for EndLeftovers each must return at once.
type Hooks struct {
	// Demand: a call wants a process while there is none.
	Demand func()
	// Answering: the driver does not answer any more, or does again.
	Answering func()
	// EndLeftovers: a start of the task, begun at a time, has failed, and the driver
	// was told to destroy it. What processes it left behind are to be ended.
	EndLeftovers func(ctx context.Context, task *TaskConfig, begun time.Time)
}

// NewProxy makes a proxy with no process yet.
func NewProxy(info Info, limits Limits, hooks Hooks) *Proxy {
	serving, retire := context.WithCancel(context.Background())
	return &Proxy{
		name: info.Name, info: info, limits: limits, changed: make(chan struct{}), tasks: map[string]*task{},
		running: map[uint64]int{}, serving: serving, retire: retire,
		hooks: hooks, breaker: breaker.New(fmt.Sprintf("driver %q", info.Name), limits.Breaker, hooks.Answering),
	}
}

// Attach lets calls through to d, after the known tasks were recovered in it. A
// task that could not be recovered now is tried again when it is next asked for.
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
			// The outcome is kept in t, or found again at the next call.
			_ = p.ensure(ctx, d, gen, t)
		})
	}
	wg.Wait()
}

// Detach holds calls back: the process is gone because of reason.
func (p *Proxy) Detach(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.reason = nil, reason
	p.succeed(p.issue())
	p.signal()
}

// Retire detaches a process that nobody uses. If a task is known or a call is under
// way it changes nothing and reports false.
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

// Unanswering reports since when calls fail at once because the driver does not
// answer, and why; nil where it does.
func (p *Proxy) Unanswering() (since time.Time, why error) { return p.breaker.Open() }

// begin notes a call; what it returns ends it.
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

// issue returns a number for a process; p.mu is held.
func (p *Proxy) issue() uint64 {
	p.issued++
	return p.issued
}

// succeed begins a generation and ends the one before; p.mu is held.
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

// Info returns what the newest process said.
func (p *Proxy) Info() Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info
}

// state returns a snapshot of what calls depend on.
func (p *Proxy) state() (d Driver, gen uint64, changed <-chan struct{}, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.generation, p.changed, p.closed
}

// acquire returns the driver's process, waiting up to wait for one (0: until ctx
// ends). It does not ask for one where none is kept running. Who got one calls
// leave with its number when done with it.
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

// enter is state that counts a call in the process that it returns.
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
		p.signal() // who waits for the last call of an old process
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

// forCall returns the driver's process for a call, asking for one if none runs.
func (p *Proxy) forCall(ctx context.Context) (Driver, uint64, error) {
	if d, _, _, _ := p.state(); d == nil && p.hooks.Demand != nil {
		p.hooks.Demand()
	}
	return p.acquire(ctx, p.limits.Ready)
}

// forTask acquires the process in which the task is known, recovering it first
// where needed. A task that the proxy never saw is the driver's to judge. The
// number of the process is returned with an error of the task, too.
func (p *Proxy) forTask(ctx context.Context, taskID string, acquire func(context.Context) (Driver, uint64, error)) (Driver, uint64, error) {
	d, gen, err := acquire(ctx)
	if err != nil {
		return nil, 0, err
	}
	p.mu.Lock()
	t := p.tasks[taskID]
	p.mu.Unlock()
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
		p.forget(t.handle.TaskID)
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
}

func (p *Proxy) forget(taskID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tasks, taskID)
}

// settle turns what a closed connection leaves behind into Unavailable: gRPC
// reports it as canceled though the caller canceled nothing.
func settle(ctx context.Context, err error) error {
	if err != nil && errdefs.IsCanceled(err) && ctx.Err() == nil {
		return errdefs.Unavailablef("the plugin's connection was closed: %w", err)
	}
	return err
}
