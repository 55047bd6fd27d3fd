// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

const deploymentsByJob = 0

// TableDeployments is the name of the table of deployments.
const TableDeployments = "deployments"

var deploymentTable = &kind[model.Deployment]{
	heading: heading{name: TableDeployments},
	schema: schema[model.Deployment]{
		id: func(d *model.Deployment) string { return d.ID },
		secondaries: []secondary[model.Deployment]{
			deploymentsByJob: {name: ByJob, watched: true, key: func(d *model.Deployment) string { return JobKey(d.Namespace, d.JobID) }},
		},
	},
	record: 10,
}

// DeploymentByID returns a deployment.
func (v *View) DeploymentByID(id string) *model.Deployment { return deploymentTable.in(v.t).get(id) }

// DeploymentsByJob returns the deployments of a job.
func (v *View) DeploymentsByJob(ns, id string) []*model.Deployment {
	return deploymentTable.in(v.t).list(deploymentsByJob, JobKey(ns, id))
}

// LatestDeployment returns the newest deployment of a job.
func (v *View) LatestDeployment(ns, jobID string) *model.Deployment {
	var latest *model.Deployment
	for d := range deploymentTable.in(v.t).scan(deploymentsByJob, JobKey(ns, jobID)) {
		if latest == nil || d.CreateIndex > latest.CreateIndex {
			latest = d
		}
	}
	return latest
}

// Deployments yields all deployments ordered by id.
func (v *View) Deployments() iter.Seq[*model.Deployment] { return deploymentTable.in(v.t).all("") }

// UpsertDeployment stores a deployment of the scheduler. Its counters are derived from
// allocs, so an existing deployment keeps its counters and the deadlines that have begun, and
// a deployment that has ended is not changed. The transaction takes ownership of d.
func (tx *Tx) UpsertDeployment(d *model.Deployment, now int64) {
	d.CreateIndex, d.ModifyIndex = tx.index, tx.index
	if d.ModifyTime == 0 {
		d.ModifyTime = now
	}
	if d.CreateTime == 0 {
		d.CreateTime = now
	}
	if old := deploymentTable.in(tx.t).get(d.ID); old != nil {
		if !old.Active() {
			return
		}
		d.CreateIndex, d.CreateTime = old.CreateIndex, old.CreateTime
		for name, g := range d.TaskGroups {
			if o := old.TaskGroups[name]; o != nil {
				g.PlacedAllocs, g.HealthyAllocs, g.UnhealthyAllocs = o.PlacedAllocs, o.HealthyAllocs, o.UnhealthyAllocs
				if g.PlacedCanaries = o.PlacedCanaries; !o.RequireProgressBy.IsZero() || tx.View().Level() < levelHolds {
					g.RequireProgressBy = o.RequireProgressBy
				}
				if tx.View().Level() >= levelHolds {
					g.Promoted = g.Promoted || o.Promoted
				}
			}
		}
		if old.Status == model.DeploymentStatusPaused && d.Status == model.DeploymentStatusRunning && tx.View().Level() >= levelHolds {
			d.Status, d.StatusDescription = old.Status, old.StatusDescription // it was paused meanwhile
		}
	}
	tx.writeDeployment(d)
}

// levelHolds is the level from which on the scheduler begins the progress deadline of a group
// that it has held back.
const levelHolds = 2

func (tx *Tx) writeDeployment(d *model.Deployment) {
	d.ModifyIndex = tx.index
	record(tx, deploymentTable, deploymentTable.in(tx.t).put(d), d)
	delete(tx.derived.deployments, d.ID)
}

// settledDeployment returns a deployment whose counters include every alloc written so
// far.
func (tx *Tx) settledDeployment(id string) (*model.Deployment, error) {
	tx.settleDeployment(id)
	d := deploymentTable.in(tx.t).get(id)
	if d == nil {
		return nil, errdefs.NotFoundf("deployment %q does not exist; it may have been garbage collected", id)
	}
	return d, nil
}

// levelPaused is the level from which on a paused deployment does not become successful.
const levelPaused = 2

// UpdateDeploymentStatus changes the status of a deployment unless it has ended.
// Success makes the job version stable.
func (tx *Tx) UpdateDeploymentStatus(u *model.DeploymentStatusUpdate) error {
	d, err := tx.settledDeployment(u.DeploymentID)
	if err != nil {
		return err
	}
	if !d.Active() {
		return errdefs.FailedPreconditionf("deployment %q has terminal status %q; only running deployments can change", d.ID, d.Status)
	}
	if d.Status == model.DeploymentStatusPaused && u.Status == model.DeploymentStatusSuccessful && tx.View().Level() >= levelPaused {
		return errdefs.FailedPreconditionf("deployment %q is paused; resume it", d.ID) // it was decided before the pause
	}
	c := d.Copy()
	if d.Status == model.DeploymentStatusPaused && u.Status == model.DeploymentStatusRunning {
		resume(c, u.UpdatedAt)
	}
	c.Status, c.StatusDescription = u.Status, u.StatusDescription
	c.ModifyTime = max(c.ModifyTime, u.UpdatedAt)
	tx.writeDeployment(c)
	if c.Status == model.DeploymentStatusSuccessful {
		if row := jobTable.in(tx.t).get(JobKey(c.Namespace, c.JobID)); row.current() != nil && row.version(c.JobVersion) != nil {
			return tx.SetJobStability(c.Namespace, c.JobID, c.JobVersion, true)
		}
	}
	return nil
}

// resume restarts the progress deadline of every group that had begun, because the
// time of a pause does not count.
func resume(d *model.Deployment, now int64) {
	for _, g := range d.TaskGroups {
		if !g.RequireProgressBy.IsZero() {
			(groupProgress{g}).progress(time.Unix(0, now))
		}
	}
}

// PromoteDeployment promotes the canaries of the given groups (nil: all groups). The
// canaries of each group must be placed and healthy.
func (tx *Tx) PromoteDeployment(id string, groups []string, now int64) error {
	d, err := tx.settledDeployment(id)
	if err != nil {
		return err
	}
	if !d.Active() {
		return errdefs.FailedPreconditionf("deployment %q has terminal status %q; only running deployments can be promoted", id, d.Status)
	}
	c := d.Copy()
	if groups == nil {
		for name, g := range c.TaskGroups {
			if g.DesiredCanaries > 0 {
				groups = append(groups, name)
			}
		}
	}
	for _, name := range groups {
		g := c.TaskGroups[name]
		if g == nil {
			return errdefs.NotFoundf("deployment %q has no group %q; name groups of its job", id, name)
		}
		if g.DesiredCanaries == 0 {
			continue
		}
		if healthy := tx.healthyCanaries(g); healthy < g.DesiredCanaries {
			return errdefs.FailedPreconditionf("Task group %q has %d/%d healthy allocations", name, healthy, g.DesiredCanaries)
		}
	}
	for _, name := range groups {
		g := c.TaskGroups[name]
		g.Promoted = true
		if g.ProgressDeadline > 0 {
			g.RequireProgressBy = time.Unix(0, now).UTC().Add(g.ProgressDeadline)
		}
		for _, canary := range g.PlacedCanaries {
			tx.endCanary(canary)
		}
	}
	c.StatusDescription = promotedDescription(c)
	c.ModifyTime = max(c.ModifyTime, now)
	tx.writeDeployment(c)
	return nil
}

func promotedDescription(d *model.Deployment) string {
	if d.Status == model.DeploymentStatusRunning && !d.RequiresPromotion() {
		return model.DeploymentStatusDescriptionRunning
	}
	return d.StatusDescription
}

func (tx *Tx) healthyCanaries(g *model.DeploymentState) int {
	n := 0
	for _, id := range g.PlacedCanaries {
		if a := allocTable.in(tx.t).find(id); a != nil && a.DeploymentStatus.IsHealthy() && !a.TerminalStatus() {
			n++
		}
	}
	return n
}

// endCanary clears the canary flag of a promoted alloc.
func (tx *Tx) endCanary(id string) {
	a := allocTable.in(tx.t).find(id)
	if a == nil || !a.DeploymentStatus.IsCanary() {
		return
	}
	c := a.Copy()
	c.DeploymentStatus.Canary = false
	c.DeploymentStatus.ModifyIndex = tx.index
	c.AllocModifyIndex = tx.index
	tx.writeAlloc(c)
}

// SetAllocHealth sets the health of allocs of a deployment on behalf of an operator.
func (tx *Tx) SetAllocHealth(deploymentID string, healthy, unhealthy []string, at int64) error {
	d := deploymentTable.in(tx.t).get(deploymentID)
	if d == nil {
		return errdefs.NotFoundf("deployment %q does not exist; it may have been garbage collected", deploymentID)
	}
	if !d.Active() {
		return errdefs.FailedPreconditionf("deployment %q has terminal status %q; only running deployments can change", d.ID, d.Status)
	}
	check := func(ids []string) error {
		for _, id := range ids {
			a := allocTable.in(tx.t).find(id)
			if a == nil {
				return allocNotFound(id)
			}
			if a.DeploymentID != deploymentID {
				return errdefs.InvalidArgumentf("alloc %q is not part of deployment %q; name allocs of that deployment", id, deploymentID)
			}
		}
		return nil
	}
	if err := check(healthy); err != nil {
		return err
	}
	if err := check(unhealthy); err != nil {
		return err
	}
	for _, id := range healthy {
		tx.setHealth(id, true, at)
	}
	for _, id := range unhealthy {
		tx.setHealth(id, false, at)
	}
	return nil
}

func (tx *Tx) setHealth(id string, healthy bool, at int64) {
	old := allocTable.in(tx.t).find(id)
	c := *old
	c.DeploymentStatus = &model.AllocDeploymentStatus{
		Healthy: &healthy, Timestamp: time.Unix(0, at).UTC(),
		Canary: old.DeploymentStatus.IsCanary(), ModifyIndex: tx.index,
	}
	c.ModifyTime = at
	tx.writeAlloc(&c)
}

// DeleteDeployment removes a deployment, if it exists.
func (tx *Tx) DeleteDeployment(id string) {
	delete(tx.derived.deployments, id)
	if old := deploymentTable.in(tx.t).delete(id); old != nil {
		record(tx, deploymentTable, old, nil)
	}
}
