// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"maps"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// DispatchJob creates a child of a parameterized job. The entry contains only the
// child's own data; the rest is shared with the parent in state. AlreadyExists: a
// child was dispatched with the same token. Conflict: the id is taken.
type DispatchJob struct {
	Namespace        string
	ParentID         string
	ChildID          string
	Payload          []byte
	Meta             map[string]string
	Priority         int // 0 means the parent's
	IdempotencyToken string
	SubmitTime       int64 // Unix ns
	Eval             *model.Evaluation
}

func (*DispatchJob) kind() byte { return kindDispatchJob }

func (c *DispatchJob) apply(tx *state.Tx) error {
	v := tx.View()
	parent := v.JobByID(c.Namespace, c.ParentID)
	switch {
	case parent == nil:
		return errdefs.NotFoundf("parameterized job not found")
	case !parent.IsParameterized():
		return errdefs.FailedPreconditionf("Specified job %q is not a parameterized job", c.ParentID)
	case parent.Stop:
		return errdefs.FailedPreconditionf("Specified job %q is stopped", c.ParentID)
	}
	if old := v.JobByDispatchToken(c.Namespace, c.ParentID, c.IdempotencyToken); old != nil {
		return errdefs.AlreadyExistsf("job %q was dispatched with this idempotency token already as %q", c.ParentID, old.ID)
	}
	if v.JobByID(c.Namespace, c.ChildID) != nil {
		return errdefs.Conflictf("job %q exists already; dispatch again under another id", c.ChildID)
	}
	child := parent.Child(c.ChildID)
	child.Dispatched, child.DispatchIdempotencyToken = true, c.IdempotencyToken
	child.Periodic = parent.Periodic // children of a job that is both parameterized and periodic are periodic
	child.Payload, child.SubmitTime = c.Payload, c.SubmitTime
	if c.Priority > 0 {
		child.Priority = c.Priority
	}
	if len(c.Meta) > 0 {
		child.Meta = maps.Clone(parent.Meta)
		if child.Meta == nil {
			child.Meta = make(map[string]string, len(c.Meta))
		}
		maps.Copy(child.Meta, c.Meta)
	}
	upsertJobEval(tx, c.Eval, tx.UpsertJob(child, nil))
	return nil
}

// LaunchPeriodic creates a child of a periodic job for a time, or records that the
// time is skipped. A time that is not newer than the last launch is ignored, so that
// no time is launched twice; Force overrides this.
type LaunchPeriodic struct {
	Namespace  string
	ParentID   string
	Launch     int64  // Unix ns; the second is part of the child's name
	Skipped    string // if not empty, the reason why there is no child
	Force      bool
	SubmitTime int64             // Unix ns
	Eval       *model.Evaluation // nil if Skipped
}

func (*LaunchPeriodic) kind() byte { return kindLaunchPeriodic }

func (c *LaunchPeriodic) apply(tx *state.Tx) error {
	v := tx.View()
	parent := v.JobByID(c.Namespace, c.ParentID)
	if parent == nil || !parent.IsPeriodicActive() {
		if c.Force {
			return errdefs.FailedPreconditionf("job %q is not a periodic job that is enabled and runs", c.ParentID)
		}
		return nil // stopped, disabled or purged since the launch was decided
	}
	last := v.PeriodicLaunch(c.Namespace, c.ParentID)
	if !c.Force && last != nil && last.Launch >= c.Launch && last.Launch <= c.SubmitTime+int64(state.ClockTrust) {
		return nil
	}
	tx.SetPeriodicLaunch(&model.PeriodicLaunch{Namespace: c.Namespace, ID: c.ParentID, Launch: c.Launch, Skipped: c.Skipped})
	if c.Skipped != "" {
		return nil
	}
	id := model.PeriodicChildID(c.ParentID, time.Unix(0, c.Launch).Unix())
	if old := tx.View().JobByID(c.Namespace, id); old != nil {
		if c.Force {
			upsertJobEval(tx, c.Eval, old) // forced twice within a second: only an evaluation is needed
		}
		return nil
	}
	child := parent.Child(id)
	child.SubmitTime = c.SubmitTime
	upsertJobEval(tx, c.Eval, tx.UpsertJob(child, nil))
	return nil
}
