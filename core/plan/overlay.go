// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"iter"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// View is the part of the state that the Applier reads. *state.View implements it.
type View interface {
	feasible.PlanView
	fsm.PlanView
	Index() uint64
	JobAllocs(namespace, id string) iter.Seq[*model.Allocation]
}

// overlay is a View with the results on top that are accepted but not applied yet.
type overlay struct {
	View
	allocs map[string]*model.Allocation
	added  map[string][]*model.Allocation // new ones by node
	used   map[string][3]int64
	dirty  map[string]bool       // nodes with a changed existing alloc
	jobs   map[model.JobKey]bool // jobs of the results
	holds  map[string][]string   // new ones by the volume of type csi that they ask for
}

func newOverlay(v View) *overlay {
	return &overlay{
		View: v, allocs: map[string]*model.Allocation{}, added: map[string][]*model.Allocation{},
		used: map[string][3]int64{}, dirty: map[string]bool{}, jobs: map[model.JobKey]bool{}, holds: map[string][]string{},
	}
}

// apply adds the accepted part of a plan, as the state will contain it.
func (o *overlay) apply(p *model.Plan, r *model.PlanResult) {
	if !r.IsNoOp() {
		o.jobs[model.JobKey{Namespace: p.Namespace, ID: p.JobID}] = true
	}
	for i := range r.Change {
		if old := o.AllocByID(r.Change[i].AllocID); old != nil {
			o.put(old, r.Change[i].Make(old, p.EvalID, 0))
		}
	}
	for _, a := range r.Place {
		if o.AllocByID(a.ID) == nil { // otherwise it was applied meanwhile
			o.put(nil, a)
		}
	}
}

func (o *overlay) put(old, a *model.Allocation) {
	if old == nil {
		o.added[a.NodeID] = append(o.added[a.NodeID], a)
		o.hold(a)
	} else {
		o.dirty[a.NodeID] = true
		o.add(old, -1)
	}
	o.add(a, 1)
	o.allocs[a.ID] = a
}

func (o *overlay) add(a *model.Allocation, sign int64) {
	if a.ClientTerminalStatus() || a.AllocatedResources == nil {
		return
	}
	r, u := a.AllocatedResources.Comparable(), o.used[a.NodeID]
	o.used[a.NodeID] = [3]int64{u[0] + sign*r.CPUShares, u[1] + sign*r.MemoryMB, u[2] + sign*r.DiskMB}
}

// hold notes which volumes of type csi a new alloc holds.
func (o *overlay) hold(a *model.Allocation) {
	job := a.Job
	if job == nil {
		job = o.JobOf(a)
	}
	if job == nil {
		return
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return
	}
	for _, r := range tg.Volumes {
		if r.IsCSI() {
			key := a.Namespace + "\x00" + r.VolumeName(a.Index())
			o.holds[key] = append(o.holds[key], a.ID)
		}
	}
}

// CSIVolumeHolders implements feasible.VolumeView.
func (o *overlay) CSIVolumeHolders(namespace, id string) []*model.Allocation {
	below, added := o.View.CSIVolumeHolders(namespace, id), o.holds[namespace+"\x00"+id]
	out := make([]*model.Allocation, 0, len(below)+len(added))
	for _, a := range below {
		if changed := o.allocs[a.ID]; changed != nil {
			a = changed
		}
		if !a.ClientTerminalStatus() {
			out = append(out, a)
		}
	}
	for _, id := range added {
		out = append(out, o.allocs[id])
	}
	return out
}

// AllocByID implements feasible.NodeView.
func (o *overlay) AllocByID(id string) *model.Allocation {
	if a := o.allocs[id]; a != nil {
		return a
	}
	return o.View.AllocByID(id)
}

// AllocsByNode implements feasible.NodeView.
func (o *overlay) AllocsByNode(nodeID string) []*model.Allocation {
	below := o.View.AllocsByNode(nodeID)
	if len(o.added[nodeID]) == 0 && !o.dirty[nodeID] {
		return below
	}
	out := make([]*model.Allocation, 0, len(below)+len(o.added[nodeID]))
	for _, a := range below {
		if changed := o.allocs[a.ID]; changed != nil {
			a = changed
		}
		out = append(out, a)
	}
	for _, a := range o.added[nodeID] {
		out = append(out, o.allocs[a.ID])
	}
	return out
}

// NodeUsed implements feasible.NodeView.
func (o *overlay) NodeUsed(nodeID string) (cpu, mem, disk int64) {
	cpu, mem, disk = o.View.NodeUsed(nodeID)
	u := o.used[nodeID]
	return cpu + u[0], mem + u[1], disk + u[2]
}
