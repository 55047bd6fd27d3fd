// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// deployment returns an active deployment.
func (e *Endpoint) deployment(id, verb string) (*model.Deployment, error) {
	d := e.Store.View().DeploymentByID(id)
	if d == nil {
		return nil, errdefs.NotFoundf("deployment not found")
	}
	if !d.Active() {
		return nil, errdefs.FailedPreconditionf("can't %s terminal deployment", verb)
	}
	return d, nil
}

func (e *Endpoint) deploymentEval(d *model.Deployment) *model.Evaluation {
	job := e.Store.View().JobByVersion(d.Namespace, d.JobID, d.JobVersion)
	if job == nil {
		return nil
	}
	eval := e.newEval(job, model.EvalTriggerDeploymentWatcher)
	eval.DeploymentID = d.ID
	return eval
}

func (e *Endpoint) status(d *model.Deployment, status, why string) *model.DeploymentStatusUpdate {
	return &model.DeploymentStatusUpdate{DeploymentID: d.ID, Status: status, StatusDescription: why, UpdatedAt: e.Now().UnixNano()}
}

func deploymentUpdate(index uint64, eval *model.Evaluation, reverted *uint64) *api.DeploymentUpdateResponse {
	out := &api.DeploymentUpdateResponse{DeploymentModifyIndex: index, Index: index, RevertedJobVersion: reverted}
	if eval != nil {
		out.EvalID, out.EvalCreateIndex = eval.ID, index
	}
	return out
}

// FailDeployment fails a deployment manually, and reverts the job if a group has
// auto_revert.
func (e *Endpoint) FailDeployment(ctx context.Context, id string) (*api.DeploymentUpdateResponse, error) {
	d, err := e.deployment(id, "fail")
	if err != nil {
		return nil, err
	}
	eval := e.deploymentEval(d)
	cmd := &fsm.UpdateDeploymentStatus{Eval: eval}
	why := model.DeploymentStatusDescriptionFailedByUser
	var reverted *uint64
	// Unlike the controller, this does not ask which groups are done: who fails a deployment
	// by hand rejects all of it.
	if slices.ContainsFunc(slices.Collect(maps.Values(d.TaskGroups)), func(g *model.DeploymentState) bool { return g.AutoRevert }) {
		to, reason := d.Rollback(e.Store.View().JobVersions(d.Namespace, d.JobID))
		why += " - " + reason
		if to != nil {
			cmd.Job, reverted = to, &to.Version
		}
	}
	cmd.Update = e.status(d, model.DeploymentStatusFailed, why)
	index, err := e.propose(ctx, cmd)
	return deploymentUpdate(index, eval, reverted), err
}

// PauseDeployment pauses a deployment or resumes it.
func (e *Endpoint) PauseDeployment(ctx context.Context, id string, pause bool) (*api.DeploymentUpdateResponse, error) {
	verb := "resume"
	if pause {
		verb = "pause"
	}
	d, err := e.deployment(id, verb)
	if err != nil {
		return nil, err
	}
	if pause {
		index, err := e.propose(ctx, &fsm.UpdateDeploymentStatus{Update: e.status(d, model.DeploymentStatusPaused, model.DeploymentStatusDescriptionPaused)})
		return deploymentUpdate(index, nil, nil), err
	}
	eval := e.deploymentEval(d)
	index, err := e.propose(ctx, &fsm.UpdateDeploymentStatus{Update: e.status(d, model.DeploymentStatusRunning, model.DeploymentStatusDescriptionRunning), Eval: eval})
	return deploymentUpdate(index, eval, nil), err
}

// PromoteDeployment promotes the canaries of groups.
func (e *Endpoint) PromoteDeployment(ctx context.Context, req *api.DeploymentPromoteRequest) (*api.DeploymentUpdateResponse, error) {
	d, err := e.deployment(req.DeploymentID, "promote")
	if err != nil {
		return nil, err
	}
	groups, err := withCanaries(d, req)
	if err != nil {
		return nil, err
	}
	eval := e.deploymentEval(d)
	cmd := &fsm.PromoteDeployment{DeploymentID: d.ID, Groups: groups, Eval: eval, UpdatedAt: e.Now().UnixNano()}
	if rest := d.Unpromoted(); req.All && len(rest) > 0 { // of the others the canaries may be gone
		cmd.Groups = rest
	}
	index, err := e.propose(ctx, cmd)
	return deploymentUpdate(index, eval, nil), err
}

// withCanaries returns the named groups that have canaries: the promotion of any other would
// only move its deadline. It is an error if no group is left.
func withCanaries(d *model.Deployment, req *api.DeploymentPromoteRequest) ([]string, error) {
	none := func(name string) bool { g := d.TaskGroups[name]; return g != nil && g.DesiredCanaries == 0 }
	groups := req.Groups
	if req.All {
		groups = slices.Sorted(maps.Keys(d.TaskGroups))
	}
	left := slices.DeleteFunc(slices.Clone(groups), none)
	if len(left) > 0 || len(groups) == 0 && !req.All {
		return left, nil
	}
	if req.All {
		return nil, errdefs.FailedPreconditionf("no canaries to promote: deployment %s has none", d.ID)
	}
	return nil, errdefs.FailedPreconditionf("no canaries to promote: task group %q of deployment %s has none", groups[0], d.ID)
}

// SetDeploymentAllocHealth sets the health of allocs manually.
func (e *Endpoint) SetDeploymentAllocHealth(ctx context.Context, req *api.DeploymentAllocHealthRequest) (*api.DeploymentUpdateResponse, error) {
	d, err := e.deployment(req.DeploymentID, "set health of allocations for a")
	if err != nil {
		return nil, err
	}
	if len(req.HealthyAllocationIDs)+len(req.UnhealthyAllocationIDs) == 0 {
		return nil, errdefs.InvalidArgumentf("must specify at least one healthy/unhealthy allocation ID")
	}
	eval := e.deploymentEval(d)
	index, err := e.propose(ctx, &fsm.SetDeploymentAllocHealth{DeploymentID: d.ID, Healthy: req.HealthyAllocationIDs, Unhealthy: req.UnhealthyAllocationIDs, Time: e.Now().UnixNano(), Eval: eval})
	return deploymentUpdate(index, eval, nil), err
}

// UnblockDeployment returns an error: only multi-region deployments can be blocked.
func (e *Endpoint) UnblockDeployment(_ context.Context, id string) (*api.DeploymentUpdateResponse, error) {
	d, err := e.deployment(id, "unblock")
	if err != nil {
		return nil, err
	}
	return nil, errdefs.FailedPreconditionf("deployment %s is %s: only a blocked deployment can be unblocked", d.ID, d.Status)
}
