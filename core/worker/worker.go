// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Descriptions of failed evaluations, with the reference's wording.
const (
	DescMaxPlans   = "maximum attempts reached"
	DescConflicts  = "created due to placement conflicts"
	DescFailedTry  = "evaluation reached delivery limit"
	DescSuperseded = "canceled after more recent eval was processed"
	DescDefect     = "the scheduler panicked on this evaluation, which is a defect of drover; see the server's log"
)

// maxAttempts is the number of attempts at one evaluation when parts of its plans are
// rejected.
const maxAttempts = 5

// failedWait is the delay of the evaluation that follows a failed one.
const failedWait = time.Minute

// Delays of the retry after repeated conflicts: the first, and the longest.
const (
	conflictWait    = 5 * time.Second
	maxConflictWait = 5 * time.Minute
)

// Applier submits plans.
type Applier interface {
	Submit(ctx context.Context, p *model.Plan) (*model.PlanResult, error)
}

// Config holds the dependencies of a Worker. All are required.
type Config struct {
	Broker  *queue.Broker
	Blocked *queue.Blocked
	Applier Applier
	Log     propose.Log
	View    func() View                                   // the newest state
	WaitFor func(ctx context.Context, index uint64) error // returns once View shows index
	IDs     schedule.IDSource
	Now     func() time.Time
	Logger  hclog.Logger
}

// View is the part of the state that a worker reads.
type View interface {
	schedule.View
	EvalByID(id string) *model.Evaluation
}

// Worker processes one evaluation after another.
type Worker struct{ Config }

// New returns a worker; Run makes it work.
func New(cfg Config) *Worker { return &Worker{cfg} }

// unfinished is the number of decided evaluations whose results may be waiting for
// their commit while the worker continues.
const unfinished = 32

// Run takes evaluations until taking ends, and finishes those that it has taken unless
// ctx ends too. Results are committed in the background: many of them share a log
// entry, and the next decision does not wait for them. An evaluation is held until its
// result is stored, so that no other evaluation of its job is decided before.
func (w *Worker) Run(ctx, taking context.Context) {
	var ends sync.WaitGroup
	defer ends.Wait()
	slots := make(chan struct{}, unfinished)
	for {
		eval, token, err := w.Broker.Dequeue(taking)
		if err != nil {
			return
		}
		var out *schedule.Outcome
		err = w.survive(eval, func() (err error) {
			out, err = w.decide(ctx, eval, token)
			return err
		})
		if err != nil || out == nil {
			w.release(ctx, eval, token, err)
			continue
		}
		slots <- struct{}{}
		ends.Go(func() {
			defer func() { <-slots }()
			w.release(ctx, eval, token, w.survive(eval, func() error { return w.finish(ctx, out) }))
		})
	}
}

// cancelPause is the pause before evaluations that could not be marked canceled are tried again.
const cancelPause = time.Second

// RunSuperseded marks evaluations canceled that newer ones replace, until ctx ends. All that
// are superseded during a commit share the next one. One runs per server.
func (w *Worker) RunSuperseded(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Broker.Superseded():
		case <-w.Blocked.Superseded():
		case <-again:
		}
		again = nil
		if !w.cancelSuperseded(ctx) {
			again = time.After(cancelPause)
		}
	}
}

// RunFailed completes evaluations above the delivery limit, until ctx ends. One runs
// per server.
func (w *Worker) RunFailed(ctx context.Context) {
	for {
		eval, token, err := w.Broker.DequeueFailed(ctx)
		if err != nil {
			return
		}
		w.release(ctx, eval, token, w.survive(eval, func() error { return w.fail(ctx, eval) }))
	}
}

// survive converts a panic to an error: the evaluation is tried again, as often as the
// delivery limit of the broker allows.
func (w *Worker) survive(eval *model.Evaluation, do func() error) (err error) {
	defer panics.Handle(func(p *panics.Panic) {
		w.Logger.Error("a worker panicked on an evaluation; this is a defect of drover", p.Fields("eval_id", eval.ID, "job_id", eval.JobID, "namespace", eval.Namespace)...)
		err = errdefs.Internalf("the worker %w", fsm.ErrPanicked)
	})
	return do()
}

// release acknowledges an evaluation, or returns it for a retry after an error.
func (w *Worker) release(ctx context.Context, eval *model.Evaluation, token string, err error) {
	if err == nil {
		err = w.Broker.Ack(eval.ID, token)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	w.Logger.Warn("evaluation failed, it will be tried again", "eval_id", eval.ID, "job_id", eval.JobID, "namespace", eval.Namespace, "error", err)
	if err := w.Broker.Nack(eval.ID, token); err != nil {
		w.Logger.Debug("evaluation is held by nobody any more", "eval_id", eval.ID, "error", err)
	}
}

// Process handles one evaluation. After an error it should be retried.
func (w *Worker) Process(ctx context.Context, eval *model.Evaluation, token string) error {
	out, err := w.decide(ctx, eval, token)
	if err != nil || out == nil {
		return err
	}
	return w.finish(ctx, out)
}

// decide calls the scheduler and submits its plan, and repeats this on newer state
// while parts of the plan are rejected. It returns nil if the evaluation has already
// ended.
func (w *Worker) decide(ctx context.Context, eval *model.Evaluation, token string) (*schedule.Outcome, error) {
	need := max(eval.ModifyIndex, eval.SnapshotIndex)
	for attempt := 1; ; attempt++ {
		if err := w.WaitFor(ctx, need); err != nil {
			return nil, err
		}
		start, view := w.Now(), w.View()
		if isOver(view, eval) {
			return nil, nil
		}
		out := w.schedule(view, eval, start)
		out.Eval.WaitUntil = waitUntil(out.Eval)
		w.timePlacements(out, w.Now().Sub(start))
		if err := w.Broker.Extend(eval.ID, token); err != nil {
			return nil, err
		}
		result, err := w.submit(ctx, out)
		if errors.Is(err, fsm.ErrPanicked) {
			w.Logger.Error("a plan cannot be committed, its evaluation fails", "eval_id", eval.ID, "job_id", eval.JobID, "namespace", eval.Namespace, "error", err)
			return &schedule.Outcome{Plan: &model.Plan{}, Eval: failed(eval, DescDefect, w.Now())}, nil
		}
		if err != nil {
			return nil, err
		}
		if result == nil || len(result.Rejections) == 0 {
			return out, nil
		}
		w.Logger.Debug("part of a plan was refused", "eval_id", eval.ID, "attempt", attempt, "rejections", result.Rejections)
		if attempt == maxAttempts {
			w.giveUp(out, result)
			return out, nil
		}
		need = max(need, result.RefreshIndex)
	}
}

// schedule calls schedule.Process. A panic fails only this evaluation: it is not
// retried, because it would panic again, and nothing is committed.
func (w *Worker) schedule(view View, eval *model.Evaluation, now time.Time) (out *schedule.Outcome) {
	defer panics.Handle(func(p *panics.Panic) {
		w.Logger.Error("the scheduler panicked on an evaluation, which fails; this is a defect of drover",
			p.Fields("eval_id", eval.ID, "job_id", eval.JobID, "namespace", eval.Namespace)...)
		out = &schedule.Outcome{Plan: &model.Plan{}, Eval: failed(eval, DescDefect, now)}
	})
	return schedule.Process(view, eval, now, w.IDs)
}

// failed returns the evaluation with status failed.
func failed(eval *model.Evaluation, why string, now time.Time) *model.Evaluation {
	e := eval.Copy()
	e.Status, e.StatusDescription, e.ModifyTime = model.EvalStatusFailed, why, now.UnixNano()
	return e
}

// timePlacements records the duration of the decision in the metrics of its
// placements.
func (w *Worker) timePlacements(out *schedule.Outcome, took time.Duration) {
	for _, m := range out.FailedTGAllocs {
		m.AllocationTime = took
	}
	for _, a := range out.Plan.Place {
		if a.Metrics != nil {
			a.Metrics.AllocationTime = took / time.Duration(len(out.Plan.Place))
		}
	}
}

// submit stores follow-up evaluations and then submits the plan.
func (w *Worker) submit(ctx context.Context, out *schedule.Outcome) (*model.PlanResult, error) {
	if len(out.FollowUps) > 0 {
		if err := w.store(ctx, out.FollowUps...); err != nil {
			return nil, err
		}
	}
	if out.Plan.IsNoOp() {
		return nil, nil
	}
	return w.Applier.Submit(ctx, out.Plan)
}

// isOver reports whether the state contains a completed version of the evaluation, so
// that the queue's version is outdated.
func isOver(view View, eval *model.Evaluation) bool {
	now := view.EvalByID(eval.ID)
	return now == nil || now.TerminalStatus()
}

// waitUntil returns the WaitUntil of a decided evaluation: if it stays blocked, it
// waits for resources from now on.
func waitUntil(e *model.Evaluation) time.Time {
	if e.ShouldBlock() {
		return time.Time{}
	}
	return e.WaitUntil
}

// finish stores the result of the evaluation. New evaluations reach the queues through
// the state.
func (w *Worker) finish(ctx context.Context, out *schedule.Outcome) error {
	evals, waits := []*model.Evaluation{out.Eval}, out.Eval
	if out.Blocked != nil {
		evals, waits = append(evals, out.Blocked), out.Blocked
	}
	if !waits.ShouldBlock() || retriesLater(waits) || !holdsLane(waits) {
		return w.store(ctx, evals...)
	}
	// Before the state shows it and the next job of the lane may begin.
	w.Broker.Hold(waits)
	err := w.store(ctx, evals...)
	if err != nil {
		w.Broker.Unhold(waits.ID)
	}
	return err
}

// giveUp completes an evaluation whose plans were repeatedly rejected. The rest waits
// as a blocked evaluation until a time, because freed resources may never wake it; the
// reasons stay readable.
func (w *Worker) giveUp(out *schedule.Outcome, result *model.PlanResult) {
	e := out.Eval
	e.Status, e.StatusDescription = model.EvalStatusFailed, DescMaxPlans
	if len(result.Rejections) > 0 {
		e.StatusDescription += "; " + result.Rejections[0].String()
	}
	if out.Blocked == nil {
		out.Blocked = e.Next(w.IDs.NewID(), model.EvalTriggerMaxPlans, time.Unix(0, e.ModifyTime))
		out.Blocked.Status, out.Blocked.SnapshotIndex, out.Blocked.EscapedComputedClass = model.EvalStatusBlocked, e.SnapshotIndex, true
		e.BlockedEval = out.Blocked.ID
	}
	b := out.Blocked
	b.TriggeredBy, b.StatusDescription = model.EvalTriggerMaxPlans, DescConflicts
	wait := conflictWait
	if e.TriggeredBy == model.EvalTriggerMaxPlans && !e.WaitUntil.IsZero() {
		wait = max(wait, min(2*e.WaitUntil.Sub(time.Unix(0, e.CreateTime)), maxConflictWait))
	}
	b.WaitUntil = time.Unix(0, b.CreateTime).Add(wait)
}

// fail fails an evaluation above the delivery limit and creates a delayed one.
func (w *Worker) fail(ctx context.Context, eval *model.Evaluation) error {
	if isOver(w.View(), eval) {
		return nil
	}
	now := w.Now()
	e := failed(eval, DescFailedTry, now)
	next := e.Next(w.IDs.NewID(), model.EvalTriggerFailedFollowUp, now)
	next.WaitUntil = now.Add(failedWait)
	e.NextEval = next.ID
	return w.store(ctx, e, next)
}

// cancelSuperseded marks the evaluations canceled that newer ones replace. It reports whether
// none is left.
func (w *Worker) cancelSuperseded(ctx context.Context) (done bool) {
	defer panics.Handle(func(p *panics.Panic) {
		w.Logger.Error("superseded evaluations could not be marked canceled; this is a defect of drover", p.Fields()...)
		done = true // it would happen again
	})
	stale := append(w.Broker.Cancelled(), w.Blocked.Cancelled()...)
	var cancelled []*model.Evaluation
	for _, e := range stale {
		if isOver(w.View(), e) {
			continue
		}
		c := e.Copy()
		c.Status, c.StatusDescription, c.ModifyTime = model.EvalStatusCancelled, DescSuperseded, w.Now().UnixNano()
		cancelled = append(cancelled, c)
	}
	if len(cancelled) == 0 {
		return true
	}
	err := w.store(ctx, cancelled...)
	if err != nil && ctx.Err() == nil {
		w.Broker.CancelLater(stale)
		w.Logger.Warn("superseded evaluations could not be marked canceled; it is tried again", "error", err)
	}
	return err == nil
}

func (w *Worker) store(ctx context.Context, evals ...*model.Evaluation) error {
	_, err := propose.Commands(ctx, w.Log, &fsm.UpsertEvals{Evals: evals})
	return err
}
