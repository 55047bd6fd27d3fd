// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ApplyPlan commits what of a plan was accepted. Placed allocs carry no job and
// share resources and metrics; what only stops is a delta.
type ApplyPlan struct {
	EvalID            string
	UpdatedAt         int64 // Unix ns
	Stopped           []*state.AllocStop
	Placed            []*model.Allocation
	Deployment        *model.Deployment
	DeploymentUpdates []*model.DeploymentStatusUpdate
	Evals             []*model.Evaluation // of preempted jobs
}

// NewApplyPlan returns the command that commits a plan's result. r stays the caller's.
func NewApplyPlan(evalID string, r *model.PlanResult, updatedAt int64) *ApplyPlan {
	c := &ApplyPlan{EvalID: evalID, UpdatedAt: updatedAt, Deployment: r.Deployment, DeploymentUpdates: r.DeploymentUpdates}
	for _, node := range slices.Sorted(maps.Keys(r.NodeUpdate)) {
		for _, a := range r.NodeUpdate[node] {
			c.Stopped = append(c.Stopped, stopOf(a, evalID))
		}
	}
	for _, node := range slices.Sorted(maps.Keys(r.NodePreemptions)) {
		for _, a := range r.NodePreemptions[node] {
			c.Stopped = append(c.Stopped, stopOf(a, ""))
		}
	}
	for _, node := range slices.Sorted(maps.Keys(r.NodeAllocation)) {
		c.Placed = append(c.Placed, r.NodeAllocation[node]...)
	}
	return c
}

// stopOf is what a planned stop changes of an alloc. What the node reports is
// left out, unless servers overrule it: it may be newer than the plan.
func stopOf(a *model.Allocation, evalID string) *state.AllocStop {
	s := &state.AllocStop{
		ID: a.ID, EvalID: evalID,
		DesiredStatus: a.DesiredStatus, DesiredDescription: a.DesiredDescription,
		FollowupEvalID: a.FollowupEvalID, PreemptedByAllocation: a.PreemptedByAllocation,
		AllocStates: a.AllocStates, RescheduleTracker: a.RescheduleTracker,
	}
	if a.ClientStatus == model.AllocClientStatusLost || a.ClientStatus == model.AllocClientStatusUnknown {
		s.ClientStatus, s.ClientDescription = a.ClientStatus, a.ClientDescription
	}
	return s
}

func (*ApplyPlan) kind() byte { return kindApplyPlan }

func (c *ApplyPlan) apply(tx *state.Tx) error {
	if c.Deployment != nil {
		tx.UpsertDeployment(c.Deployment, c.UpdatedAt)
	}
	for _, u := range c.DeploymentUpdates {
		// A deployment that has ended meanwhile stays as it ended.
		if err := tx.UpdateDeploymentStatus(u); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsFailedPrecondition(err) {
			return err
		}
	}
	for _, s := range c.Stopped {
		if err := tx.StopAlloc(s, c.UpdatedAt); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	for _, a := range c.Placed {
		tx.PlaceAlloc(a, c.UpdatedAt)
	}
	upsertEvals(tx, c.Evals)
	return nil
}

// packedPlan is an ApplyPlan whose allocs refer to distinct resources and
// metrics by number, from 1.
type packedPlan struct {
	EvalID            string
	UpdatedAt         int64
	Stopped           []*state.AllocStop
	Deployment        *model.Deployment
	DeploymentUpdates []*model.DeploymentStatusUpdate
	Evals             []*model.Evaluation
	Resources         []*model.AllocatedResources
	Metrics           []*model.AllocMetric
	Placed            []packedAlloc
}

type packedAlloc struct {
	Alloc     *model.Allocation
	Resources uint32
	Metrics   uint32
}

func (c *ApplyPlan) packedForm() any { return &packedPlan{} }

func (c *ApplyPlan) pack() (any, error) {
	form := &packedPlan{
		EvalID: c.EvalID, UpdatedAt: c.UpdatedAt, Stopped: c.Stopped, Deployment: c.Deployment,
		DeploymentUpdates: c.DeploymentUpdates, Evals: c.Evals, Placed: make([]packedAlloc, 0, len(c.Placed)),
	}
	resources, metrics := distinct[model.AllocatedResources]{}, distinct[model.AllocMetric]{}
	for _, a := range c.Placed {
		w := *a
		if w.Job != nil {
			w.JobVersion, w.Job = w.Job.Version, nil
		}
		p := packedAlloc{Alloc: &w, Resources: resources.number(w.AllocatedResources), Metrics: metrics.number(w.Metrics)}
		w.AllocatedResources, w.Metrics = nil, nil
		form.Placed = append(form.Placed, p)
	}
	form.Resources, form.Metrics = resources.rows, metrics.rows
	return form, nil
}

func (c *ApplyPlan) unpack(form any) error {
	f := form.(*packedPlan)
	c.EvalID, c.UpdatedAt, c.Stopped, c.Deployment = f.EvalID, f.UpdatedAt, f.Stopped, f.Deployment
	c.DeploymentUpdates, c.Evals = f.DeploymentUpdates, f.Evals
	seen := interner{}
	for _, p := range f.Placed {
		if p.Alloc == nil || int(p.Resources) > len(f.Resources) || int(p.Metrics) > len(f.Metrics) {
			return errdefs.InvalidArgumentf("a plan refers to what it does not carry; the log entry is damaged")
		}
		if p.Resources > 0 {
			p.Alloc.AllocatedResources = f.Resources[p.Resources-1]
		}
		if p.Metrics > 0 {
			p.Alloc.Metrics = f.Metrics[p.Metrics-1]
		}
		state.Intern(p.Alloc, seen.intern)
		c.Placed = append(c.Placed, p.Alloc)
	}
	return nil
}

// distinct numbers rows by identity, from 1; nil is 0.
type distinct[R any] struct {
	rows []*R
	nums map[*R]uint32
}

func (d *distinct[R]) number(row *R) uint32 {
	if row == nil {
		return 0
	}
	if d.nums == nil {
		d.nums = map[*R]uint32{}
	}
	n, ok := d.nums[row]
	if !ok {
		d.rows = append(d.rows, row)
		n = uint32(len(d.rows))
		d.nums[row] = n
	}
	return n
}
