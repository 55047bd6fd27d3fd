// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ApplyPlan commits what of a plan was accepted, as far as it still holds when
// the log applies it. Its answer is nil or the []model.PlanRejection of what
// does not.
type ApplyPlan struct {
	Plan *model.Plan // what was accepted; its job and annotations are not stored
	// VerifiedIndex is the state on which nodes were asked for room. One that has
	// changed since is not given new allocs: nobody knows whether it has room.
	VerifiedIndex uint64
	UpdatedAt     int64 // Unix ns

	refused []model.PlanRejection
}

// NewApplyPlan returns the command that commits what r accepts of p, which was
// verified on the state at index verified.
func NewApplyPlan(p *model.Plan, r *model.PlanResult, verified uint64, updatedAt int64) *ApplyPlan {
	part := *p
	part.Place, part.Change, part.Deployment, part.DeploymentUpdates = r.Place, r.Change, r.Deployment, r.DeploymentUpdates
	return &ApplyPlan{Plan: &part, VerifiedIndex: verified, UpdatedAt: updatedAt}
}

func (*ApplyPlan) kind() byte { return kindApplyPlan }

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
		// A deployment that has ended meanwhile stays as it ended.
		if err := tx.UpdateDeploymentStatus(u); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsFailedPrecondition(err) {
			return err
		}
	}
	for i := range r.Change {
		if err := tx.ChangeAlloc(&r.Change[i], c.Plan.EvalID, c.UpdatedAt); err != nil {
			return err
		}
	}
	for _, a := range r.Place {
		tx.PlaceAlloc(a, c.UpdatedAt)
	}
	return nil
}

// unchanged says that nodes have the room that they had when the plan was
// verified, unless they have changed or keep what was to be stopped.
func unchanged(v PlanView, p *model.Plan, verified uint64) Room {
	stops := map[string]int{} // by node
	for i := range p.Change {
		if a := v.AllocByID(p.Change[i].AllocID); a != nil && p.Change[i].Kind == model.AllocStop {
			stops[a.NodeID]++
		}
	}
	return func(n *model.Node, stop, _ []*model.Allocation) string {
		switch {
		case n.ModifyIndex > verified:
			return "node has changed meanwhile"
		case len(stop) < stops[n.ID]:
			return "node keeps an alloc that was to stop"
		}
		return ""
	}
}
