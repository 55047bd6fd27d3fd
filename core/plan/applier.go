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
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/sdk/errdefs"
)

// maxGroup is the number of plans that are committed as one log entry.
const maxGroup = 64

// Applier verifies plans and commits what fits. While one group is being committed,
// the next is verified on top of it.
type Applier struct {
	view func() View
	log  propose.Log
	now  func() time.Time

	refusals *refusals // nil: nobody counts them

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
	results []*model.PlanResult // the next group is verified on top of these
	index   uint64              // index of the state on which it was verified
	done    chan struct{}       // closed when the commit has ended
	err     error
	cut     bool // the log applied less than was accepted
}

// NewApplier returns an applier, which works while Run runs. view returns the newest
// state.
func NewApplier(view func() View, log propose.Log, now func() time.Time) *Applier {
	return &Applier{view: view, log: log, now: now, wake: make(chan struct{}, 1)}
}

// Submit waits until the plan is verified and its accepted part is committed.
func (a *Applier) Submit(ctx context.Context, p *model.Plan) (*model.PlanResult, error) {
	result, err := a.submit(ctx, p)
	a.judge(ctx, result)
	return result, err
}

func (a *Applier) submit(ctx context.Context, p *model.Plan) (*model.PlanResult, error) {
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
		<-r.done // it is being committed: wait for the real outcome
		return r.result, r.err
	}
}

// withdraw removes a request that has not been verified yet.
func (a *Applier) withdraw(r *request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.pending)
	a.pending = slices.DeleteFunc(a.pending, func(x *request) bool { return x == r })
	return len(a.pending) < n
}

// next removes the most urgent plans from the queue.
func (a *Applier) next() []*request {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortStableFunc(a.pending, func(x, y *request) int { return -cmp.Compare(x.plan.Priority, y.plan.Priority) })
	n := min(len(a.pending), maxGroup)
	out := slices.Clone(a.pending[:n])
	a.pending = slices.Delete(a.pending, 0, n)
	return out
}

// Run verifies and commits until ctx ends; waiting plans are then answered with
// Unavailable.
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
			flying = nil // the state contains it
		}
		g := a.verify(reqs, flying)
		if flying != nil {
			<-flying.done
			if flying.err != nil || flying.cut { // the group on top of which g was verified was not committed
				g = a.verify(g.reqs, nil)
			}
		}
		flying = a.commit(ctx, g)
	}
}

// verify verifies the plans one after another, each on top of the previous ones. If a
// plan causes a panic, only that plan is rejected.
func (a *Applier) verify(reqs []*request, flying *group) *group {
	for {
		g, bad, panicked := a.tryVerify(reqs, flying)
		switch {
		case panicked == nil:
			return g
		case bad == nil: // on top of accepted plans: wait until the state contains them
			<-flying.done
			flying = nil
		default:
			bad.result, bad.err = nil, panicked
			close(bad.done)
			reqs = slices.DeleteFunc(reqs, func(r *request) bool { return r == bad })
		}
	}
}

// tryVerify verifies all plans. If that panics, it returns the panic as an error, with the
// request at fault; that is nil if the panic came from a plan in flight.
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

// lookPanicked returns the error of a plan whose verification panicked, with the stack.
func lookPanicked(p *panics.Panic) error {
	return errdefs.Internalf("the look at a plan %w: %v\n%s", fsm.ErrPanicked, p.Value, p.Stack)
}

// command returns the command that commits the accepted part of a plan.
func (g *group) command(r *request, now int64) (cmd *fsm.ApplyPlan, err error) {
	defer panics.Handle(func(p *panics.Panic) { err = lookPanicked(p) })
	return fsm.NewApplyPlan(r.plan, r.result, g.index, now), nil
}

// commit proposes a group without waiting for it.
func (a *Applier) commit(ctx context.Context, g *group) *group {
	now := a.now().UnixNano()
	var plans []*fsm.ApplyPlan
	for _, r := range g.reqs {
		if r.result.IsNoOp() {
			continue
		}
		cmd, err := g.command(r, now)
		if err != nil {
			r.result, r.err, g.cut = &model.PlanResult{}, err, true
			continue
		}
		plans = append(plans, cmd)
	}
	if len(plans) == 0 {
		g.answer(0, nil, nil)
		return g
	}
	go func() {
		index, refused, err := propose.Plans(ctx, a.log, plans...)
		if errors.Is(err, fsm.ErrPanicked) && len(plans) > 1 {
			err = errdefs.Abortedf("plans were not committed since one beside them cannot be: %s", err) // without wrapping the cause: these plans are retried
		}
		g.answer(index, refused, err)
	}()
	return g
}

// applied reports whether the group is applied, so that a new view contains it.
func (g *group) applied() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// answer returns the results to all waiting workers. refused has the parts of each proposed
// plan that the log entry rejected; nil means none.
func (g *group) answer(index uint64, refused [][]model.PlanRejection, err error) {
	g.err = err
	for _, r := range g.reqs {
		committed := !r.result.IsNoOp()
		if committed && err != nil {
			r.result, r.err = nil, err
			continue
		}
		if committed && len(refused) > 0 {
			if len(refused[0]) > 0 {
				r.result.Rejections = append(r.result.Rejections, refused[0]...)
				r.result.RefreshIndex = index
				g.cut = true
			}
			refused = refused[1:]
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
