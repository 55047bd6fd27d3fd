// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// UpdateDeploymentStatus changes the status of a deployment. If the deployment failed
// with auto_revert, it also registers the job to which it reverts.
type UpdateDeploymentStatus struct {
	Update *model.DeploymentStatusUpdate
	Eval   *model.Evaluation
	Job    *model.Job
}

func (*UpdateDeploymentStatus) kind() byte { return kindUpdateDeploymentStatus }

func (c *UpdateDeploymentStatus) apply(tx *state.Tx) error {
	if c.Update == nil {
		return errdefs.InvalidArgumentf("a change of a deployment without a status")
	}
	if err := tx.UpdateDeploymentStatus(c.Update); err != nil {
		return err
	}
	var job *model.Job
	if c.Job != nil && c.rollsOut(tx.View()) {
		job = tx.UpsertJob(c.Job, nil)
	}
	upsertJobEval(tx, c.Eval, job)
	return nil
}

// rollsOut reports whether the deployment belongs to the newest version of the job. A
// job that was changed or stopped meanwhile is not reverted.
func (c *UpdateDeploymentStatus) rollsOut(v *state.View) bool {
	d := v.DeploymentByID(c.Update.DeploymentID)
	job := v.JobByID(d.Namespace, d.JobID)
	return job != nil && job.Version == d.JobVersion
}

// PromoteDeployment promotes the canaries of the groups, or of all.
type PromoteDeployment struct {
	DeploymentID string
	All          bool
	Groups       []string
	Eval         *model.Evaluation
	UpdatedAt    int64 // Unix ns
}

func (*PromoteDeployment) kind() byte { return kindPromoteDeployment }

func (c *PromoteDeployment) apply(tx *state.Tx) error {
	groups := c.Groups
	if c.All {
		groups = nil
	} else if groups == nil {
		groups = []string{}
	}
	if err := tx.PromoteDeployment(c.DeploymentID, groups, c.UpdatedAt); err != nil {
		return err
	}
	upsertJobEval(tx, c.Eval, nil)
	return nil
}

// SetDeploymentAllocHealth sets the health of allocs of a deployment manually, and may
// change the deployment's status.
type SetDeploymentAllocHealth struct {
	DeploymentID string
	Healthy      []string
	Unhealthy    []string
	Time         int64 // Unix ns
	Eval         *model.Evaluation
	Update       *model.DeploymentStatusUpdate
	Job          *model.Job
}

func (*SetDeploymentAllocHealth) kind() byte { return kindSetDeploymentHealth }

func (c *SetDeploymentAllocHealth) apply(tx *state.Tx) error {
	if err := tx.SetAllocHealth(c.DeploymentID, c.Healthy, c.Unhealthy, c.Time); err != nil {
		return err
	}
	if c.Update != nil {
		return (&UpdateDeploymentStatus{Update: c.Update, Eval: c.Eval, Job: c.Job}).apply(tx)
	}
	upsertJobEval(tx, c.Eval, nil)
	return nil
}

// DeleteDeployments removes deployments; missing ones are skipped.
type DeleteDeployments struct{ IDs []string }

func (*DeleteDeployments) kind() byte { return kindDeleteDeployments }

func (c *DeleteDeployments) apply(tx *state.Tx) error {
	for _, id := range c.IDs {
		tx.DeleteDeployment(id)
	}
	return nil
}
