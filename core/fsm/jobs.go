// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// UpsertJob registers a job. The state assigns version and indexes; a job that equals
// its current version keeps them. With EnforceIndex the job's JobModifyIndex must
// match, where 0 means that the job must not exist. Its answer is the job's new
// JobModifyIndex.
type UpsertJob struct {
	Job            *model.Job
	Submission     *model.JobSubmission
	Eval           *model.Evaluation
	EnforceIndex   bool
	JobModifyIndex uint64

	registered uint64
}

// answer returns the JobModifyIndex that the job has after this command.
func (c *UpsertJob) answer() any { return c.registered }

func (*UpsertJob) kind() byte { return kindUpsertJob }

func (c *UpsertJob) apply(tx *state.Tx) error {
	if c.Job == nil {
		return errdefs.InvalidArgumentf("a job registration without a job")
	}
	if c.EnforceIndex {
		if err := checkIndex(tx.View().JobByID(c.Job.Namespace, c.Job.ID), c.JobModifyIndex); err != nil {
			return err
		}
	}
	if err := checkCycle(tx.View(), c.Job); err != nil {
		return err
	}
	job := tx.UpsertJob(c.Job, c.Submission)
	c.registered = job.JobModifyIndex
	upsertJobEval(tx, c.Eval, job)
	return nil
}

func checkIndex(cur *model.Job, want uint64) error {
	switch {
	case cur == nil && want != 0:
		return errdefs.Conflictf("Enforcing job modify index %d: job does not exist", want)
	case cur != nil && want == 0:
		return errdefs.Conflictf("Enforcing job modify index 0: job already exists")
	case cur != nil && cur.JobModifyIndex != want:
		return errdefs.Conflictf("Enforcing job modify index %d: job exists with conflicting job modify index: %d", want, cur.JobModifyIndex)
	}
	return nil
}

// upsertJobEval stores the evaluation of a job that was just written.
func upsertJobEval(tx *state.Tx, e *model.Evaluation, job *model.Job) {
	if e == nil {
		return
	}
	if job != nil {
		e.JobModifyIndex = job.JobModifyIndex
	}
	tx.UpsertEval(e)
}

// DeregisterJob stops a job or, with Purge, removes it.
type DeregisterJob struct {
	Namespace  string
	ID         string
	Purge      bool
	Eval       *model.Evaluation
	SubmitTime int64 // Unix ns
	// IfModifyIndex, if not 0, must be the job's ModifyIndex, otherwise nothing
	// happens. Garbage collection sets it, because the job may have been restarted.
	IfModifyIndex uint64
}

func (*DeregisterJob) kind() byte { return kindDeregisterJob }

func (c *DeregisterJob) apply(tx *state.Tx) error {
	if c.IfModifyIndex != 0 {
		if job := tx.View().JobByID(c.Namespace, c.ID); job == nil || job.ModifyIndex != c.IfModifyIndex {
			return nil
		}
	}
	var err error
	if c.Purge {
		err = tx.PurgeJob(c.Namespace, c.ID)
	} else {
		err = tx.StopJob(c.Namespace, c.ID, c.SubmitTime)
	}
	if err != nil {
		return err
	}
	upsertJobEval(tx, c.Eval, tx.View().JobByID(c.Namespace, c.ID))
	return nil
}

// SetJobStability sets whether a version of a job is stable.
type SetJobStability struct {
	Namespace string
	ID        string
	Version   uint64
	Stable    bool
}

func (*SetJobStability) kind() byte { return kindSetJobStability }

func (c *SetJobStability) apply(tx *state.Tx) error {
	return tx.SetJobStability(c.Namespace, c.ID, c.Version, c.Stable)
}

// SetJobVersionTag tags a version of a job; a nil Tag removes the tag.
type SetJobVersionTag struct {
	Namespace string
	ID        string
	Version   uint64
	Tag       *model.JobVersionTag
}

func (*SetJobVersionTag) kind() byte { return kindSetJobVersionTag }

func (c *SetJobVersionTag) apply(tx *state.Tx) error {
	return tx.SetJobVersionTag(c.Namespace, c.ID, c.Version, c.Tag)
}
