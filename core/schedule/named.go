// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// placing notes for which placement rows are looked at.
func (pl *placer) placing(p *reconcile.Placement) {
	if pl.name, pl.previous = p.Name, ""; p.Previous != nil {
		pl.previous = p.Previous.ID
	}
}

// mayMount returns why the alloc that is being placed cannot use the volumes on a row
// that it requests, or "".
func (pl *placer) mayMount(row int) string {
	if !pl.chk.Mounts() {
		return ""
	}
	n := pl.cluster.nodes[row]
	holders := append(feasible.Holders(pl.view, n.ID, nil), pl.cluster.placed[row]...)
	if why := pl.chk.MayMount(n, pl.name, pl.previous, holders); why != "" || !pl.chk.HasCSI() {
		return why
	}
	var placed []*model.Allocation
	for _, as := range pl.cluster.placed {
		placed = append(placed, as...)
	}
	return pl.chk.MayAttach(n, pl.name, pl.previous, holders, placed)
}

// chooseNamed is choose for a group whose allocs have volumes of their own, which are on few
// nodes: what one alloc lacks on a row says nothing about the next one. It returns the best
// row that has the volumes and room, or else one on which preemption makes room, or -1.
func (pl *placer) chooseNamed(p *reconcile.Placement, id string) (int, float64, *model.AllocatedResources, string) {
	clear(pl.exhausted)
	var aside []int
	defer func() {
		for _, row := range aside {
			pl.picker.Restore(row)
		}
	}()
	if row := pl.sticky(p); row >= 0 {
		if res, why := pl.resources(row, id); why == "" {
			return row, 0, res, id
		}
	}
	for {
		row, score, ok := pl.picker.Best()
		if !ok {
			break
		}
		if pl.distinct.Check(pl.cluster.nodes[row]) == "" {
			res, why := pl.resources(row, id)
			if why == "" {
				return row, score, res, id
			}
			pl.exhausted[row] = why
		}
		pl.picker.Drop(row)
		aside = append(aside, row)
	}
	for row, n := range pl.cluster.nodes {
		if pl.chk.Check(n) != "" || pl.distinct.Check(n) != "" || pl.mayMount(row) != "" || !pl.evictBest(row, id) {
			continue
		}
		if res, why := pl.tryOn(row, id); why == "" {
			return row, 0, res, id
		}
	}
	return -1, 0, nil, ""
}
