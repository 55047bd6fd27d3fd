// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Proposer writes a command to the log and returns once it is applied here.
type Proposer interface {
	Propose(ctx context.Context, command []byte) (index uint64, answer any, err error)
}

// maxGroup is how many plans are committed as one entry of the log.
const maxGroup = 64

// Applier verifies plans and commits what fits. While one group is on its way
// through the log the next is verified against it.
type Applier struct {
	view     func() View
	proposer Proposer
	now      func() time.Time

	mu      sync.Mutex
	pending []*request
	wake    chan struct{}
}

type request struct {
	plan   *model.Plan
	result *model.PlanResult
	err    error
	done   chan struct{}
}

// group is plans that are committed together.
type group struct {
	reqs    []*request
	results []*model.PlanResult // what the next group is verified against
	index   uint64              // state that it was verified on
	done    chan struct{}       // closed when the log has answered
	err     error
	cut     bool // the log applied less than was accepted
}

// NewApplier returns an applier; Run makes it work. view returns the newest state.
func NewApplier(view func() View, proposer Proposer, now func() time.Time) *Applier {
	return &Applier{view: view, proposer: proposer, now: now, wake: make(chan struct{}, 1)}
}

// Submit waits until the plan was looked at and what fits of it is committed.
func (a *Applier) Submit(ctx context.Context, p *model.Plan) (*model.PlanResult, error) {
	r := &request{plan: p, done: make(chan struct{})}
	a.mu.Lock()
	a.pending = append(a.pending, r)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
	select {
	case <-r.done:
		return r.result, r.err
	case <-ctx.Done():
		if a.withdraw(r) {
			return nil, ctx.Err()
		}
		<-r.done // it is being committed: what is answered must be what happened
		return r.result, r.err
	}
}

// withdraw takes a request back that nobody has looked at.
func (a *Applier) withdraw(r *request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.pending)
	a.pending = slices.DeleteFunc(a.pending, func(x *request) bool { return x == r })
	return len(a.pending) < n
}

// next takes the most urgent plans.
func (a *Applier) next() []*request {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortStableFunc(a.pending, func(x, y *request) int { return -cmp.Compare(x.plan.Priority, y.plan.Priority) })
	n := min(len(a.pending), maxGroup)
	out := slices.Clone(a.pending[:n])
	a.pending = slices.Delete(a.pending, 0, n)
	return out
}

// Run verifies and commits until ctx ends; what waits then is answered with Unavailable.
func (a *Applier) Run(ctx context.Context) {
	var flying *group
	defer func() {
		if flying != nil {
			<-flying.done
		}
		for reqs := a.next(); len(reqs) > 0; reqs = a.next() {
			for _, r := range reqs {
				r.err = errdefs.Unavailablef("this server does not lead any more: the evaluation is tried again by the next leader")
				close(r.done)
			}
		}
	}()
	for {
		reqs := a.next()
		if len(reqs) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-a.wake:
			}
			continue
		}
		if flying != nil && flying.applied() {
			flying = nil // the state holds it
		}
		g := a.verify(reqs, flying)
		if flying != nil {
			<-flying.done
			if flying.err != nil || flying.cut { // what g was verified against did not happen
				g = a.verify(g.reqs, nil)
			}
		}
		flying = a.commit(ctx, g)
	}
}

// verify looks at every plan in turn, each on top of the ones before. A plan on
// which the look panics is refused alone; the group holds the others.
func (a *Applier) verify(reqs []*request, flying *group) *group {
	for {
		g, bad, panicked := a.tryVerify(reqs, flying)
		switch {
		case panicked == nil:
			return g
		case bad == nil: // on top of what was accepted before: wait until the state holds it
			<-flying.done
			flying = nil
		default:
			bad.result, bad.err = nil, panicked
			close(bad.done)
			reqs = slices.DeleteFunc(reqs, func(r *request) bool { return r == bad })
		}
	}
}

// tryVerify is one look at all plans, until one panics.
func (a *Applier) tryVerify(reqs []*request, flying *group) (g *group, at *request, panicked error) {
	defer panics.Handle(func(p *panics.Panic) { panicked = lookPanicked(p) })
	o := newOverlay(a.view())
	if flying != nil {
		for i, result := range flying.results {
			o.apply(flying.reqs[i].plan, result)
		}
	}
	g = &group{reqs: reqs, index: o.Index(), done: make(chan struct{})}
	for _, at = range reqs {
		at.result = verify(o, at.plan)
		g.results = append(g.results, at.result)
		o.apply(at.plan, at.result)
	}
	return g, nil, nil
}

// lookPanicked is the error of a plan, which holds where the panic happened.
func lookPanicked(p *panics.Panic) error {
	return errdefs.Internalf("the look at a plan %w: %v\n%s", fsm.ErrPanicked, p.Value, p.Stack)
}

// command is what commits the accepted part of a plan.
func (g *group) command(r *request, now int64) (cmd *fsm.ApplyPlan, err error) {
	defer panics.Handle(func(p *panics.Panic) { err = lookPanicked(p) })
	return fsm.NewApplyPlan(r.plan, r.result, g.index, now), nil
}

// commit sends a group to the log without waiting for it.
func (a *Applier) commit(ctx context.Context, g *group) *group {
	now := a.now().UnixNano()
	batch := &fsm.Batch{}
	for _, r := range g.reqs {
		if r.result.IsNoOp() {
			continue
		}
		cmd, err := g.command(r, now)
		if err != nil {
			r.result, r.err, g.cut = &model.PlanResult{}, err, true
			continue
		}
		batch.Commands = append(batch.Commands, cmd)
	}
	if len(batch.Commands) == 0 {
		g.answer(0, nil, nil)
		return g
	}
	var cmd fsm.Command = batch
	if len(batch.Commands) == 1 {
		cmd = batch.Commands[0]
	}
	data, err := fsm.Encode(cmd)
	if err != nil {
		g.answer(0, nil, err)
		return g
	}
	go func() {
		index, answer, err := a.proposer.Propose(ctx, data)
		if errors.Is(err, fsm.ErrPanicked) && len(batch.Commands) > 1 {
			err = errdefs.Abortedf("plans were not committed since one beside them cannot be: %s", err) // without its cause: they are tried again
		}
		g.answer(index, answer, err)
	}()
	return g
}

// applied reports whether the log has applied the group, so that a new view holds it.
func (g *group) applied() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// answer tells everybody what became of the group. answer is that of the log's
// entry: what it refused of each plan that it holds.
func (g *group) answer(index uint64, answer any, err error) {
	g.err = err
	each, many := answer.([]any)
	if !many {
		each = []any{answer}
	}
	for _, r := range g.reqs {
		committed := !r.result.IsNoOp()
		if committed && err != nil {
			r.result, r.err = nil, err
			continue
		}
		if committed && len(each) > 0 {
			if refused, ok := each[0].([]model.PlanRejection); ok {
				r.result.Rejections = append(r.result.Rejections, refused...)
				r.result.RefreshIndex = index
				g.cut = true
			}
			each = each[1:]
		}
		r.result.AllocIndex = index
		if r.result.RefreshIndex != 0 {
			r.result.RefreshIndex = max(r.result.RefreshIndex, index)
		}
	}
	close(g.done)
	for _, r := range g.reqs {
		close(r.done)
	}
}
