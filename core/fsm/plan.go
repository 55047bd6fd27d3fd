// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ApplyPlan commits the accepted part of a plan, as far as it is still valid when it
// is applied. Its answer is nil or the []model.PlanRejection of the rest.
type ApplyPlan struct {
	Plan *model.Plan // the accepted part; its job and annotations are not stored
	// VerifiedIndex is the index of the state on which the nodes' resources were
	// checked. Nodes that have changed since get no new allocs, because their
	// resources are unknown.
	VerifiedIndex uint64
	UpdatedAt     int64 // Unix ns

	refused []model.PlanRejection
}

// NewApplyPlan returns the command that commits the part of p that r accepts. verified
// is the index of the state on which p was verified.
func NewApplyPlan(p *model.Plan, r *model.PlanResult, verified uint64, updatedAt int64) *ApplyPlan {
	part := *p
	part.Place, part.Change, part.Deployment, part.DeploymentUpdates = r.Place, r.Change, r.Deployment, r.DeploymentUpdates
	return &ApplyPlan{Plan: &part, VerifiedIndex: verified, UpdatedAt: updatedAt}
}

func (*ApplyPlan) kind() byte { return kindApplyPlan }

// preemptionLevel is the capability level from which servers know preemption: an older one
// would only stop the alloc, and not evaluate its job.
const preemptionLevel = 2

// needs implements needing.
func (c *ApplyPlan) needs() int {
	if c.Plan != nil && slices.ContainsFunc(c.Plan.Change, func(ch model.AllocChange) bool { return ch.PreemptedBy != "" }) {
		return preemptionLevel
	}
	return 1
}

func (c *ApplyPlan) answer() any {
	if len(c.refused) == 0 {
		return nil
	}
	return c.refused
}

func (c *ApplyPlan) apply(tx *state.Tx) error {
	if c.Plan == nil {
		return errdefs.InvalidArgumentf("a plan without content")
	}
	view := tx.View()
	r := Accept(view, c.Plan, unchanged(view, c.Plan, c.VerifiedIndex))
	c.refused = r.Rejections
	if r.Deployment != nil {
		tx.UpsertDeployment(r.Deployment, c.UpdatedAt)
	}
	for _, u := range r.DeploymentUpdates {
		// A deployment that has ended meanwhile is not changed.
		if err := tx.UpdateDeploymentStatus(u); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsFailedPrecondition(err) {
			return err
		}
	}
	preempted, jobs := map[string][]string{}, map[model.JobKey]bool{}
	for i := range r.Change {
		ch := &r.Change[i]
		if by := ch.PreemptedBy; by != "" {
			preempted[by] = append(preempted[by], ch.AllocID)
			jobs[view.AllocByID(ch.AllocID).JobKey()] = true
		}
		if err := tx.ChangeAlloc(ch, c.Plan.EvalID, c.UpdatedAt); err != nil {
			return err
		}
	}
	for _, a := range r.Place {
		a.PreemptedAllocations = preempted[a.ID]
		tx.PlaceAlloc(a, c.UpdatedAt)
	}
	for _, e := range c.Plan.PreemptionEvals {
		if e != nil && jobs[model.JobKey{Namespace: e.Namespace, ID: e.JobID}] && view.EvalByID(e.ID) == nil {
			tx.UpsertEval(e)
		}
	}
	return nil
}

// unchanged returns a Room that accepts a node if it has the same resources as when
// the plan was verified: neither the node, nor the allocs to be stopped, nor volumes of
// type csi have gone.
func unchanged(v PlanView, p *model.Plan, verified uint64) Room {
	stops := map[string]int{} // by node; an alloc that gets other resources leaves its old ones
	for i := range p.Change {
		ch := &p.Change[i]
		if a := v.AllocByID(ch.AllocID); a != nil && (ch.Kind == model.AllocStop || ch.Resources != nil) {
			stops[a.NodeID]++
		}
	}
	return func(n *model.Node, stop, place []*model.Allocation) string {
		for _, a := range place {
			if why := volumesGone(v, a); why != "" {
				return why
			}
		}
		switch {
		case n.ModifyIndex > verified:
			return "node has changed meanwhile"
		case len(stop) < stops[n.ID]:
			return "node keeps an alloc that was to stop"
		}
		return ""
	}
}

// volumesGone returns why an alloc cannot be placed because a volume of type csi that it
// asks for is being deleted, or "". Such a volume belongs to no node, so the change of the
// node does not say it.
func volumesGone(v PlanView, a *model.Allocation) string {
	job := v.JobOf(a)
	if job == nil {
		return ""
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return ""
	}
	for _, r := range tg.Volumes {
		if !r.IsCSI() {
			continue
		}
		if vol := v.CSIVolumeByID(a.Namespace, r.VolumeName(a.Index())); vol == nil || vol.State != "" {
			return "a volume of type csi is gone or is being deleted"
		}
	}
	return ""
}
