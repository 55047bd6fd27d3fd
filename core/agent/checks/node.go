// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package checks

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
)

// Bounds of what runs at the same time. Checks beyond them wait for their turn; the bound
// per alloc keeps an alloc whose checks all hang from delaying the checks of others.
const (
	maxRunning         = 256
	maxRunningPerAlloc = 8
)

// grain is the resolution of the timer: checks that are due within it run together.
const grain = 10 * time.Millisecond

// firstWithin is the time within which a check runs first. Where in it is drawn at random,
// so that checks of allocs that start together do not run together ever after.
const firstWithin = time.Second

// defaultTimeout applies to a check without a timeout, which only an older server accepts.
const defaultTimeout = 30 * time.Second

// Spec is a check that an alloc wants to be run.
type Spec struct {
	ID      string // id of the check, unique within its alloc
	Service string
	Task    string // task that offers the service; "" if the group does
	Check   *model.ServiceCheck
	// Port is the port's label or number. Another Port begins the check anew: what one port
	// answered says nothing about another.
	Port string
	// Run names the start of the tasks that are checked, and Began is its time. Another
	// Run begins the check anew. "" means that nothing runs: the check pauses.
	Run   string
	Began time.Time
	// Resolve finds where the check goes. It is called on a goroutine of the check.
	Resolve func() (Target, error)
}

// Owner learns of the results of an alloc's checks. No lock of this package is held during
// its calls.
type Owner interface {
	// CheckChanged says that a check's status or GoodSince has changed.
	CheckChanged()
	// CheckFailed reports that check_restart demands a restart of the tasks that the check
	// covers.
	CheckFailed(s Spec)
}

// Config is the configuration of a Node.
type Config struct {
	Now    func() time.Time
	Jitter func() float64 // 0..1
	// Ask runs a check once; nil is Ask of this package.
	Ask    func(ctx context.Context, t Target) Outcome
	Logger hclog.Logger
}

// Node runs the checks of all allocs of a node.
type Node struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	waiting agenda
	timer   *time.Timer
	alarm   time.Time // when timer fires; zero if it is not set
	turns   []*Alloc  // allocs with due checks that may run, in the order of their turns
	running int
	closed  bool
}

// New returns a node without checks.
func New(cfg Config) *Node {
	if cfg.Ask == nil {
		cfg.Ask = Ask
	}
	n := &Node{cfg: cfg}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// Close ends all checks and waits until none runs.
func (n *Node) Close() {
	n.mu.Lock()
	n.closed = true
	if n.timer != nil {
		n.timer.Stop()
	}
	n.mu.Unlock()
	n.cancel()
	n.work.Wait()
}

// Alloc is the checks of one alloc.
type Alloc struct {
	n      *Node
	owner  Owner
	checks map[string]*check
	due    []*check // wait for their turn
	inTurn bool     // it is in n.turns
	runs   int      // checks that run now
}

// check is one check. It is in at most one place: in Node.waiting, in Alloc.due, or
// running.
type check struct {
	of       *Alloc
	spec     Spec
	revision int // of spec
	state    State
	restored bool // its state comes from an earlier agent process and is not confirmed yet
	target   *Target
	at       time.Time // when it is due
	index    int       // in Node.waiting; -1 if it is not there
	due      bool
	gone     bool
	cancel   context.CancelFunc // ends the current run; nil if there is none
}

// Open returns the checks of an alloc, none of which runs yet.
func (n *Node) Open(owner Owner) *Alloc {
	return &Alloc{n: n, owner: owner, checks: map[string]*check{}}
}

// Want says which checks are to be run from now on. stored are the states that an earlier
// agent process kept. It does not block.
func (a *Alloc) Want(specs []Spec, stored map[string]State) {
	n := a.n
	n.mu.Lock()
	defer n.mu.Unlock()
	wanted := make(map[string]bool, len(specs))
	now := n.cfg.Now()
	for _, s := range specs {
		wanted[s.ID] = true
		c := a.checks[s.ID]
		if c == nil {
			c = &check{of: a, index: -1, state: Begin(s.Check, "", now)}
			if old, ok := stored[s.ID]; ok {
				c.state, c.restored = old, true
			}
			a.checks[s.ID] = c
		}
		n.update(c, s, now)
	}
	for id, c := range a.checks {
		if !wanted[id] {
			c.gone = true
			delete(a.checks, id)
			n.pause(c)
		}
	}
	n.setAlarm(now)
}

// update gives a check its newest spec.
func (n *Node) update(c *check, s Spec, now time.Time) {
	before := c.spec.Run
	c.spec, c.revision, c.target = s, c.revision+1, nil
	switch {
	case s.Run == "":
		n.pause(c)
		return
	case s.Run != c.state.Run, c.state.Port != "" && c.state.Port != s.Port:
		n.pause(c)
		c.state, c.restored = Begin(s.Check, s.Run, now), false
	case s.Run == before: // it goes on
		return
	}
	c.state.Port = s.Port
	if c.index < 0 && !c.due && c.cancel == nil && !n.closed {
		n.schedule(c, now.Add(time.Duration(n.cfg.Jitter()*float64(min(s.Check.Interval, firstWithin)))))
	}
}

// pause takes a check out of the agenda and ends its run.
func (n *Node) pause(c *check) {
	if c.index >= 0 {
		heap.Remove(&n.waiting, c.index)
	}
	if c.cancel != nil {
		c.cancel()
	}
}

// Close ends the checks of the alloc.
func (a *Alloc) Close() { a.Want(nil, nil) }

// Result is what is known of a check.
type Result struct {
	Spec  Spec
	State State
	// Target is where the check goes; nil until that was found.
	Target *Target
	// Restored means that the check has not run yet since an earlier agent process kept
	// its state.
	Restored bool
}

// Results returns the states of all checks, unordered.
func (a *Alloc) Results() []Result {
	a.n.mu.Lock()
	defer a.n.mu.Unlock()
	out := make([]Result, 0, len(a.checks))
	for _, c := range a.checks {
		out = append(out, Result{c.spec, c.state, c.target, c.restored})
	}
	return out
}

func (n *Node) schedule(c *check, at time.Time) {
	c.at = at
	heap.Push(&n.waiting, c)
}

// setAlarm sets the timer for the first check that waits.
func (n *Node) setAlarm(now time.Time) {
	if n.closed || len(n.waiting) == 0 {
		return
	}
	at := n.waiting[0].at
	if at.Before(now.Add(grain)) {
		at = now.Add(grain)
	}
	if !n.alarm.IsZero() && !at.Before(n.alarm) {
		return // it fires earlier, and is then set again
	}
	n.alarm = at
	if n.timer == nil {
		n.timer = time.AfterFunc(at.Sub(now), n.ring)
	} else {
		n.timer.Reset(at.Sub(now))
	}
}

// ring gives all checks that are due their turn.
func (n *Node) ring() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	now := n.cfg.Now()
	n.alarm = time.Time{}
	for len(n.waiting) > 0 && !n.waiting[0].at.After(now) {
		c := heap.Pop(&n.waiting).(*check)
		c.due = true
		c.of.due = append(c.of.due, c)
		n.queue(c.of)
	}
	n.setAlarm(now)
	for n.running < maxRunning {
		c, ctx := n.take()
		if c == nil {
			return
		}
		n.work.Go(func() { n.run(c, ctx) })
	}
}

// queue lines an alloc up if it has a check that may run.
func (n *Node) queue(a *Alloc) {
	if !a.inTurn && len(a.due) > 0 && a.runs < maxRunningPerAlloc {
		a.inTurn = true
		n.turns = append(n.turns, a)
	}
}

// take returns the next check to be run, with the context of its run; nil if there is none.
func (n *Node) take() (*check, context.Context) {
	for len(n.turns) > 0 {
		a := n.turns[0]
		n.turns[0], n.turns = nil, n.turns[1:]
		a.inTurn = false
		c := a.due[0]
		a.due[0], a.due = nil, a.due[1:]
		c.due = false
		if c.gone || c.spec.Run == "" { // it paused meanwhile
			n.queue(a)
			continue
		}
		a.runs++
		n.running++
		n.queue(a)
		timeout := c.spec.Check.Timeout
		if timeout <= 0 {
			timeout = defaultTimeout
		}
		ctx, cancel := context.WithTimeout(n.ctx, timeout)
		c.cancel = cancel
		return c, ctx
	}
	return nil, nil
}

// run runs a check, and then others that are due.
func (n *Node) run(c *check, ctx context.Context) {
	for c != nil {
		n.mu.Lock()
		spec, revision, target := c.spec, c.revision, c.target
		n.mu.Unlock()
		began := n.cfg.Now()
		o, target := n.ask(ctx, spec, target)
		stopped := errors.Is(ctx.Err(), context.Canceled)
		tell := n.finish(c, result{spec, revision, target, o, began, stopped})
		if tell != nil {
			tell()
		}
		n.mu.Lock()
		c.of.runs--
		n.running--
		n.queue(c.of)
		c, ctx = nil, nil
		if !n.closed {
			c, ctx = n.take()
		}
		n.mu.Unlock()
	}
}

// ask runs a check once. A panic fails it and nothing else.
func (n *Node) ask(ctx context.Context, s Spec, known *Target) (o Outcome, t *Target) {
	defer panics.Handle(func(p *panics.Panic) {
		n.cfg.Logger.Error("a service check panicked; this is a defect of drover", p.Fields("service", s.Service)...)
		o = Outcome{Status: Failure, Output: "the check panicked; see the log of the node's agent"}
	})
	if known == nil {
		found, err := s.Resolve()
		if err != nil {
			return Outcome{Status: Failure, Output: cut(err.Error())}, nil
		}
		known = &found
	}
	o = n.cfg.Ask(ctx, *known)
	o.Output = cut(o.Output)
	return o, known
}

// result is the result of one run of a check.
type result struct {
	spec     Spec    // spec of the run
	revision int     // of spec
	target   *Target // nil if none was found
	outcome  Outcome
	began    time.Time
	stopped  bool // the run was ended by pause, so its outcome says nothing
}

// finish applies the result of a run, and returns the calls to its owner. The result of a
// run that was cancelled is dropped.
func (n *Node) finish(c *check, r result) (tell func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.cancel()
	c.cancel = nil
	if c.gone || n.closed || c.spec.Run == "" {
		return nil
	}
	now := n.cfg.Now()
	defer n.setAlarm(now)
	if r.stopped || c.spec.Run != r.spec.Run || c.spec.Port != r.spec.Port { // it was begun anew meanwhile
		n.schedule(c, now)
		return nil
	}
	if c.revision == r.revision { // otherwise it may go elsewhere now
		c.target = r.target
	}
	before, confirms := c.state, c.restored
	c.state, c.restored = before.Next(c.spec.Check, r.outcome, c.spec.Began, now), false
	interval := max(c.spec.Check.Interval, time.Second)
	next := r.began.Add(interval)
	if next.Before(now) { // it took longer than its interval
		next = now.Add(interval / 2)
	}
	n.schedule(c, next)
	owner, spec := c.of.owner, c.spec
	if c.state.mustRestart(spec.Check) {
		c.state.Bad = 0
		return func() { owner.CheckFailed(spec) }
	}
	if confirms || before.Status != c.state.Status || !before.GoodSince.Equal(c.state.GoodSince) {
		return owner.CheckChanged
	}
	return nil
}

// agenda is a heap of the checks that wait, the first due on top.
type agenda []*check

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

func (a *agenda) Push(x any) {
	c := x.(*check)
	c.index = len(*a)
	*a = append(*a, c)
}

func (a *agenda) Pop() any {
	old := *a
	c := old[len(old)-1]
	old[len(old)-1], c.index = nil, -1
	*a = old[:len(old)-1]
	return c
}
