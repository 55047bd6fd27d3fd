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
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/schedule"
)

// Descriptions of evaluations that did not end well, as the reference words them.
const (
	DescMaxPlans   = "maximum attempts reached"
	DescConflicts  = "created due to placement conflicts"
	DescFailedTry  = "evaluation reached delivery limit"
	DescSuperseded = "canceled after more recent eval was processed"
)

// Attempts at one evaluation when parts of its plans are refused.
const maxAttempts = 5

// failedWait is how long a failed evaluation's successor waits.
const failedWait = time.Minute

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
	View     func() schedule.View                          // the newest state
	WaitFor  func(ctx context.Context, index uint64) error // returns once View shows index
	IDs      schedule.IDSource
	Now      func() time.Time
	Logger   hclog.Logger
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

// Run works until ctx ends. What an evaluation came to is stored behind its
// back: many ends go into the log together, and the next decision does not wait
// for them. The evaluation is held until its end is stored, so that no other one
// of its job is decided before.
func (w *Worker) Run(ctx context.Context) {
	var ends sync.WaitGroup
	defer ends.Wait()
	slots := make(chan struct{}, unfinished)
	for {
		eval, token, err := w.Broker.Dequeue(ctx, types...)
		if err != nil {
			return
		}
		out, err := w.decide(ctx, eval, token)
		if err != nil {
			w.release(ctx, eval, token, err)
			continue
		}
		slots <- struct{}{}
		ends.Go(func() {
			defer func() { <-slots }()
			w.release(ctx, eval, token, w.finish(ctx, out))
		})
		w.cancelSuperseded(ctx)
	}
}

// RunFailed ends evaluations that were delivered too often, until ctx ends. One per server.
func (w *Worker) RunFailed(ctx context.Context) {
	for {
		eval, token, err := w.Broker.Dequeue(ctx, queue.TypeFailed)
		if err != nil {
			return
		}
		w.release(ctx, eval, token, w.fail(ctx, eval))
	}
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
	if err != nil {
		return err
	}
	return w.finish(ctx, out)
}

// decide has the scheduler decide and its plan committed, again on newer state
// while parts of it are refused.
func (w *Worker) decide(ctx context.Context, eval *model.Evaluation, token string) (*schedule.Outcome, error) {
	need := max(eval.ModifyIndex, eval.SnapshotIndex)
	for attempt := 1; ; attempt++ {
		if err := w.WaitFor(ctx, need); err != nil {
			return nil, err
		}
		start := w.Now()
		out := schedule.Process(w.View(), eval, start, w.IDs)
		w.timePlacements(out, w.Now().Sub(start))
		if err := w.Broker.Extend(eval.ID, token); err != nil {
			return nil, err
		}
		result, err := w.submit(ctx, out)
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

// timePlacements says how long the decision took, shared by what was decided.
func (w *Worker) timePlacements(out *schedule.Outcome, took time.Duration) {
	for _, m := range out.FailedTGAllocs {
		m.AllocationTime = took
	}
	n := 0
	for _, as := range out.Plan.NodeAllocation {
		n += len(as)
	}
	for _, as := range out.Plan.NodeAllocation {
		for _, a := range as {
			if a.Metrics != nil && a.Metrics.AllocationTime == 0 && a.CreateIndex == 0 {
				a.Metrics.AllocationTime = took / time.Duration(n)
			}
		}
	}
}

// submit stores follow-up evaluations, then has the plan committed.
func (w *Worker) submit(ctx context.Context, out *schedule.Outcome) (*model.PlanResult, error) {
	if len(out.FollowUps) > 0 {
		index, err := w.store(ctx, out.FollowUps...)
		if err != nil {
			return nil, err
		}
		w.Broker.Enqueue(indexed(out.FollowUps, index)...)
	}
	if out.Plan.IsNoOp() {
		return nil, nil
	}
	return w.Applier.Submit(ctx, out.Plan)
}

// finish stores what became of the evaluation and queues what it led to.
func (w *Worker) finish(ctx context.Context, out *schedule.Outcome) error {
	evals := []*model.Evaluation{out.Eval}
	if out.Blocked != nil {
		evals = append(evals, out.Blocked)
	}
	index, err := w.store(ctx, evals...)
	if err != nil {
		return err
	}
	for _, e := range indexed(evals, index) {
		if e.ShouldBlock() {
			w.Blocked.Block(e)
		}
	}
	return nil
}

// giveUp ends an evaluation whose plans were refused again and again. What is
// left waits as a blocked one; the reasons stay readable.
func (w *Worker) giveUp(out *schedule.Outcome, result *model.PlanResult) {
	e := out.Eval
	e.Status, e.StatusDescription = model.EvalStatusFailed, DescMaxPlans
	for _, r := range result.Rejections {
		e.StatusDescription += "; node " + r.NodeID + ": " + r.Reason
		break
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
	out.Blocked.TriggeredBy, out.Blocked.StatusDescription = model.EvalTriggerMaxPlans, DescConflicts
}

// fail ends an evaluation that was delivered too often and makes one to come later.
func (w *Worker) fail(ctx context.Context, eval *model.Evaluation) error {
	now := w.Now()
	e := eval.Copy()
	e.Status, e.StatusDescription, e.ModifyTime = model.EvalStatusFailed, DescFailedTry, now.UnixNano()
	next := &model.Evaluation{
		ID: w.IDs.NewID(), Namespace: e.Namespace, Priority: e.Priority, Type: e.Type, JobID: e.JobID,
		TriggeredBy: model.EvalTriggerFailedFollowUp, JobModifyIndex: e.JobModifyIndex, PreviousEval: e.ID,
		Status: model.EvalStatusPending, WaitUntil: now.Add(failedWait),
		CreateTime: now.UnixNano(), ModifyTime: now.UnixNano(),
	}
	e.NextEval = next.ID
	index, err := w.store(ctx, e, next)
	if err == nil {
		w.Broker.Enqueue(indexed([]*model.Evaluation{next}, index)...)
	}
	return err
}

// cancelSuperseded marks the evaluations canceled that newer ones replace.
func (w *Worker) cancelSuperseded(ctx context.Context) {
	stale := append(w.Broker.Cancelled(), w.Blocked.Cancelled()...)
	if len(stale) == 0 {
		return
	}
	for i, e := range stale {
		c := e.Copy()
		c.Status, c.StatusDescription, c.ModifyTime = model.EvalStatusCancelled, DescSuperseded, w.Now().UnixNano()
		stale[i] = c
	}
	if _, err := w.store(ctx, stale...); err != nil && !errors.Is(err, context.Canceled) {
		w.Logger.Warn("superseded evaluations could not be marked canceled; the next leader does it", "error", err)
	}
}

func (w *Worker) store(ctx context.Context, evals ...*model.Evaluation) (uint64, error) {
	data, err := fsm.Encode(&fsm.UpsertEvals{Evals: evals})
	if err != nil {
		return 0, err
	}
	index, _, err := w.Proposer.Propose(ctx, data)
	return index, err
}

// indexed returns copies that carry the index at which they were stored.
func indexed(evals []*model.Evaluation, index uint64) []*model.Evaluation {
	out := make([]*model.Evaluation, len(evals))
	for i, e := range evals {
		c := e.Copy()
		if c.CreateIndex == 0 {
			c.CreateIndex = index
		}
		c.ModifyIndex = index
		out[i] = c
	}
	return out
}
