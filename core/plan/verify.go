// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// verify returns what of a plan the view accepts. It is pure.
func verify(v View, p *model.Plan) *model.PlanResult {
	r := &model.PlanResult{
		NodeUpdate: map[string][]*model.Allocation{}, NodeAllocation: map[string][]*model.Allocation{},
		NodePreemptions: map[string][]*model.Allocation{},
		Deployment:      p.Deployment, DeploymentUpdates: p.DeploymentUpdates,
	}
	refused := map[string]bool{} // allocs that were not accepted
	nodes := map[string]bool{}
	for _, part := range []map[string][]*model.Allocation{p.NodeUpdate, p.NodeAllocation, p.NodePreemptions} {
		for n := range part {
			nodes[n] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		why := verifyNode(v, p, id)
		if why == "" {
			accept(r.NodeUpdate, p.NodeUpdate, id)
			accept(r.NodeAllocation, p.NodeAllocation, id)
			accept(r.NodePreemptions, p.NodePreemptions, id)
			continue
		}
		r.Rejections = append(r.Rejections, model.PlanRejection{NodeID: id, Reason: why, Index: v.Index()})
		for _, a := range p.NodeAllocation[id] {
			refused[a.ID] = true
		}
	}
	if len(r.Rejections) == 0 {
		return r
	}
	r.RefreshIndex = v.Index()
	if p.AllAtOnce {
		return &model.PlanResult{Rejections: r.Rejections, RefreshIndex: r.RefreshIndex}
	}
	keepPredecessors(r, refused)
	return r
}

func accept(dst, src map[string][]*model.Allocation, node string) {
	if allocs := src[node]; len(allocs) > 0 {
		dst[node] = allocs
	}
}

// keepPredecessors lets an alloc run on whose successor was refused, unless it is lost.
func keepPredecessors(r *model.PlanResult, refused map[string]bool) {
	for node, stops := range r.NodeUpdate {
		kept := slices.DeleteFunc(slices.Clone(stops), func(a *model.Allocation) bool {
			return refused[a.NextAllocation] && !a.ClientTerminalStatus()
		})
		if len(kept) == 0 {
			delete(r.NodeUpdate, node)
		} else {
			r.NodeUpdate[node] = kept
		}
	}
}

// verifyNode returns "" if the plan's part for a node can be committed, else why not.
func verifyNode(v View, p *model.Plan, id string) string {
	var fresh []*model.Allocation
	for _, a := range p.NodeAllocation[id] {
		if v.AllocByID(a.ID) == nil {
			fresh = append(fresh, a)
		}
	}
	if len(fresh) == 0 {
		return "" // stops and updates in place are always right
	}
	n := v.NodeByID(id)
	switch {
	case n == nil:
		return "node does not exist"
	case n.Status != model.NodeStatusReady:
		return "node is " + n.Status
	case n.DrainStrategy != nil:
		return "node is draining"
	case n.SchedulingEligibility != model.NodeSchedulingEligible:
		return "node is not eligible for scheduling"
	case v.JobByID(fresh[0].Namespace, fresh[0].JobID) == nil:
		return "job does not exist any more"
	}
	stop := append(slices.Clone(p.NodeUpdate[id]), p.NodePreemptions[id]...)
	return feasible.Fits(v, n, feasible.Change{Stop: stop, Place: p.NodeAllocation[id]})
}
