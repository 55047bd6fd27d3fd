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
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Descriptions of evaluations that did not end well, as the reference words them.
const (
	DescMaxPlans   = "maximum attempts reached"
	DescConflicts  = "created due to placement conflicts"
	DescFailedTry  = "evaluation reached delivery limit"
	DescSuperseded = "canceled after more recent eval was processed"
	DescDefect     = "the scheduler panicked on this evaluation, which is a defect of drover; see the server's log"
)

// Attempts at one evaluation when parts of its plans are refused.
const maxAttempts = 5

// failedWait is how long a failed evaluation's successor waits.
const failedWait = time.Minute

// How long what conflicts have left over waits for its next try: at first, and at
// most after conflicts again and again.
const (
	conflictWait    = 5 * time.Second
	maxConflictWait = 5 * time.Minute
)

// Proposer writes a command to the log and returns once it is applied here.
type Proposer interface {
	Propose(ctx context.Context, command []byte) (index uint64, answer any, err error)
}

// Applier commits plans.
type Applier interface {
	Submit(ctx context.Context, p *model.Plan) (*model.PlanResult, error)
}

// Config is what a Worker needs. Everything is required.
type Config struct {
	Broker   *queue.Broker
	Blocked  *queue.Blocked
	Applier  Applier
	Proposer Proposer
	View     func() View                                   // the newest state
	WaitFor  func(ctx context.Context, index uint64) error // returns once View shows index
	IDs      schedule.IDSource
	Now      func() time.Time
	Logger   hclog.Logger
}

// View is the state that a worker decides on.
type View interface {
	schedule.View
	EvalByID(id string) *model.Evaluation
}

// Worker processes evaluations one after the other.
type Worker struct{ Config }

// New returns a worker; Run makes it work.
func New(cfg Config) *Worker { return &Worker{cfg} }

// types that workers take; those that were delivered too often come in a lane of their own.
var types = []string{model.JobTypeService, model.JobTypeBatch, model.JobTypeSystem, model.JobTypeSysBatch}

// unfinished bounds the evaluations that are decided and whose end is on its way
// into the log while the worker goes on with the next one.
const unfinished = 32

// Run takes evaluations until taking ends, and finishes what it has taken unless
// ctx ends, which is the outer one of the two. What an evaluation came to is stored behind its
// back: many ends go into the log together, and the next decision does not wait
// for them. The evaluation is held until its end is stored, so that no other one
// of its job is decided before.
func (w *Worker) Run(ctx, taking context.Context) {
	var ends sync.WaitGroup
	defer ends.Wait()
	slots := make(chan struct{}, unfinished)
	for {
		eval, token, err := w.Broker.Dequeue(taking, types...)
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
		if p := panics.Catch(func() { w.cancelSuperseded(ctx) }); p != nil {
			w.Logger.Error("superseded evaluations could not be marked canceled; this is a defect of drover", p.Fields()...)
		}
	}
}

// RunFailed ends evaluations that were delivered too often, until ctx ends. One per server.
func (w *Worker) RunFailed(ctx context.Context) {
	for {
		eval, token, err := w.Broker.Dequeue(ctx, queue.TypeFailed)
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

// release lets an evaluation go: for good, or to be tried again after an error.
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

// Process handles one evaluation. It returns an error if it shall be tried again.
func (w *Worker) Process(ctx context.Context, eval *model.Evaluation, token string) error {
	out, err := w.decide(ctx, eval, token)
	if err != nil || out == nil {
		return err
	}
	return w.finish(ctx, out)
}

// decide has the scheduler decide and its plan committed, again on newer state
// while parts of it are refused. It returns nil if the evaluation is over already.
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

// schedule is schedule.Process of which a panic fails the evaluation alone: it is
// not tried again, since it would come to the same, and nothing of it is committed.
func (w *Worker) schedule(view View, eval *model.Evaluation, now time.Time) (out *schedule.Outcome) {
	defer panics.Handle(func(p *panics.Panic) {
		w.Logger.Error("the scheduler panicked on an evaluation, which fails; this is a defect of drover",
			p.Fields("eval_id", eval.ID, "job_id", eval.JobID, "namespace", eval.Namespace)...)
		out = &schedule.Outcome{Plan: &model.Plan{}, Eval: failed(eval, DescDefect, now)}
	})
	return schedule.Process(view, eval, now, w.IDs)
}

// failed is the evaluation with its end.
func failed(eval *model.Evaluation, why string, now time.Time) *model.Evaluation {
	e := eval.Copy()
	e.Status, e.StatusDescription, e.ModifyTime = model.EvalStatusFailed, why, now.UnixNano()
	return e
}

// timePlacements says how long the decision took, shared by what was decided.
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

// submit stores follow-up evaluations, then has the plan committed.
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

// isOver reports whether the state says that nothing is left to do: the queue had
// an older value.
func isOver(view View, eval *model.Evaluation) bool {
	now := view.EvalByID(eval.ID)
	return now == nil || now.TerminalStatus()
}

// waitUntil is the time that a decided evaluation keeps: one that waits on, waits
// for room from now on.
func waitUntil(e *model.Evaluation) time.Time {
	if e.ShouldBlock() {
		return time.Time{}
	}
	return e.WaitUntil
}

// finish stores what became of the evaluation. What it led to gets into the queues
// by the state.
func (w *Worker) finish(ctx context.Context, out *schedule.Outcome) error {
	evals := []*model.Evaluation{out.Eval}
	if out.Blocked != nil {
		evals = append(evals, out.Blocked)
	}
	return w.store(ctx, evals...)
}

// giveUp ends an evaluation whose plans were refused again and again. What is
// left waits as a blocked one until a time, since no room may ever come that would
// wake it; the reasons stay readable.
func (w *Worker) giveUp(out *schedule.Outcome, result *model.PlanResult) {
	e := out.Eval
	e.Status, e.StatusDescription = model.EvalStatusFailed, DescMaxPlans
	if len(result.Rejections) > 0 {
		e.StatusDescription += "; " + result.Rejections[0].String()
	}
	if out.Blocked == nil {
		out.Blocked = &model.Evaluation{
			ID: w.IDs.NewID(), Namespace: e.Namespace, Priority: e.Priority, Type: e.Type, JobID: e.JobID,
			Status: model.EvalStatusBlocked, PreviousEval: e.ID, SnapshotIndex: e.SnapshotIndex,
			EscapedComputedClass: true, JobModifyIndex: e.JobModifyIndex,
			CreateTime: e.ModifyTime, ModifyTime: e.ModifyTime,
		}
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

// fail ends an evaluation that was delivered too often and makes one to come later.
func (w *Worker) fail(ctx context.Context, eval *model.Evaluation) error {
	if isOver(w.View(), eval) {
		return nil
	}
	now := w.Now()
	e := failed(eval, DescFailedTry, now)
	next := &model.Evaluation{
		ID: w.IDs.NewID(), Namespace: e.Namespace, Priority: e.Priority, Type: e.Type, JobID: e.JobID,
		TriggeredBy: model.EvalTriggerFailedFollowUp, JobModifyIndex: e.JobModifyIndex, PreviousEval: e.ID,
		Status: model.EvalStatusPending, WaitUntil: now.Add(failedWait),
		CreateTime: now.UnixNano(), ModifyTime: now.UnixNano(),
	}
	e.NextEval = next.ID
	return w.store(ctx, e, next)
}

// cancelSuperseded marks the evaluations canceled that newer ones replace.
func (w *Worker) cancelSuperseded(ctx context.Context) {
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
		return
	}
	if err := w.store(ctx, cancelled...); err != nil && ctx.Err() == nil {
		w.Broker.CancelLater(stale)
		w.Logger.Warn("superseded evaluations could not be marked canceled; it is tried again with the next evaluation", "error", err)
	}
}

func (w *Worker) store(ctx context.Context, evals ...*model.Evaluation) error {
	data, err := fsm.Encode(&fsm.UpsertEvals{Evals: evals})
	if err == nil {
		_, _, err = w.Proposer.Propose(ctx, data)
	}
	return err
}
