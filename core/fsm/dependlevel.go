// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// dependencyLevel is the level from which servers know dependencies.
const dependencyLevel = 2

// levelOfJob returns the level that servers need to read a job.
func levelOfJob(j *model.Job) int {
	if j.BeyondLevel1() {
		return dependencyLevel
	}
	return 1
}

// needs implements needing.
func (c *UpsertJob) needs() int { return levelOfJob(c.Job) }

// needs implements needing.
func (c *UpdateDeploymentStatus) needs() int { return levelOfJob(c.Job) }

// needs implements needing.
func (c *SetDeploymentAllocHealth) needs() int { return levelOfJob(c.Job) }

// needs implements needing.
func (c *ScaleJob) needs() int {
	if c.Register == nil {
		return 1
	}
	return c.Register.needs()
}

// needs implements needing. The other commands with evaluations create them, and a new one
// holds nothing yet.
func (c *UpsertEvals) needs() int {
	if slices.ContainsFunc(c.Evals, func(e *model.Evaluation) bool { return e != nil && len(e.Held) > 0 }) {
		return dependencyLevel
	}
	return 1
}

// checkCycle rejects a job that depends on itself through other jobs. It is checked when the
// entry is applied: two registrations at a time must not make a cycle.
func checkCycle(v *state.View, j *model.Job) error {
	return j.CheckCycle(func(id string) *model.Job { return v.JobByID(j.Namespace, id) })
}
