// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// Verify returns the part of a plan that the view accepts, when no other plan is being
// committed. It is pure.
func Verify(v View, p *model.Plan) *model.PlanResult { return verify(newOverlay(v), p) }

// verify returns the part of a plan that the view accepts. It is pure.
func verify(o *overlay, p *model.Plan) *model.PlanResult {
	r := &model.PlanResult{Rejections: []model.PlanRejection{{Reason: "another plan of the job came first"}}}
	if !o.planned(p) {
		fits := map[string][]*model.Allocation{} // by node; a node may be asked again for fewer
		r = fsm.Accept(o, p, func(n *model.Node, stop, place []*model.Allocation) string {
			delete(fits, n.ID)
			others := func() []*model.Allocation { return slices.Concat(slices.Collect(maps.Values(fits))...) }
			why := feasible.Fits(o, n, feasible.Change{Stop: stop, Place: place, Elsewhere: others})
			if why == "" {
				fits[n.ID] = place
			}
			return why
		})
	}
	if len(r.Rejections) > 0 {
		r.RefreshIndex = o.Index()
	}
	return r
}

// planned reports whether another plan of the job was accepted since p was made: two
// plans that were made independently would do the same work twice.
func (o *overlay) planned(p *model.Plan) bool {
	if o.jobs[model.JobKey{Namespace: p.Namespace, ID: p.JobID}] {
		return true
	}
	for a := range o.JobAllocs(p.Namespace, p.JobID) {
		if a.AllocModifyIndex > p.SnapshotIndex {
			return true
		}
	}
	return false
}
