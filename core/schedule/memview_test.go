// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule_test

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
)

// memView is the smallest state that satisfies schedule.View and can take a plan.
type memView struct {
	index       uint64
	jobs        map[string][]*model.Job // newest last
	former      map[string][]*model.Job // versions of jobs that were purged
	allocs      map[string]*model.Allocation
	nodes       map[string]*model.Node
	deployments []*model.Deployment
	config      model.SchedulerConfiguration
	volumes     map[string]*model.HostVolume
	claims      map[string]*model.VolumeClaim // by slot
	csi         map[string]*model.CSIVolume   // by id
}

var _ schedule.View = (*memView)(nil)

func newMemView() *memView {
	return &memView{index: 1, jobs: map[string][]*model.Job{}, former: map[string][]*model.Job{}, allocs: map[string]*model.Allocation{}, nodes: map[string]*model.Node{}}
}

func (v *memView) HostVolumeByID(id string) *model.HostVolume { return v.volumes[id] }
func (v *memView) HostVolumesByNode(nodeID string) (out []*model.HostVolume) {
	for _, h := range v.volumes {
		if h.NodeID == nodeID {
			out = append(out, h)
		}
	}
	return out
}
func (v *memView) CSIVolumeByID(_, id string) *model.CSIVolume { return v.csi[id] }
func (v *memView) CSIVolumeHolders(ns, id string) (out []*model.Allocation) {
	for _, a := range v.allocs {
		if !a.ClientTerminalStatus() && v.JobOf(a).LookupTaskGroup(a.TaskGroup).CSIRequest(id, a.Index()) != nil {
			out = append(out, a)
		}
	}
	return out
}
func (v *memView) CSIVolumeTwins(*model.CSIVolume) []*model.CSIVolume    { return nil }
func (v *memView) VolumeClaimOf(c *model.VolumeClaim) *model.VolumeClaim { return v.claims[c.Slot()] }

func (v *memView) Index() uint64 { return v.index }
func (v *memView) JobByID(_, id string) *model.Job {
	if js := v.jobs[id]; len(js) > 0 {
		return js[len(js)-1]
	}
	return nil
}
func (v *memView) JobByVersion(_, id string, version uint64) *model.Job {
	for _, j := range v.jobs[id] {
		if j.Version == version {
			return j
		}
	}
	return nil
}
func (v *memView) AllocByID(id string) *model.Allocation { return v.allocs[id] }
func (v *memView) where(f func(*model.Allocation) bool) []*model.Allocation {
	var out []*model.Allocation
	for _, a := range v.allocs {
		if f(a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *model.Allocation) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
func (v *memView) AllocsByJob(_, id string) []*model.Allocation {
	return v.where(func(a *model.Allocation) bool { return a.JobID == id })
}
func (v *memView) AllocsByNode(id string) []*model.Allocation {
	return v.where(func(a *model.Allocation) bool { return a.NodeID == id })
}
func (v *memView) NodeByID(id string) *model.Node { return v.nodes[id] }
func (v *memView) Nodes() iter.Seq[*model.Node] {
	return func(yield func(*model.Node) bool) {
		for _, id := range slices.Sorted(maps.Keys(v.nodes)) {
			if !yield(v.nodes[id]) {
				return
			}
		}
	}
}
func (v *memView) Fleet() *model.Fleet { return model.NewFleet(slices.Collect(v.Nodes())) }
func (v *memView) NodesWithUse() iter.Seq2[*model.Node, model.NodeUse] {
	return func(yield func(*model.Node, model.NodeUse) bool) {
		for n := range v.Nodes() {
			cpu, mem, disk := v.NodeUsed(n.ID)
			if !yield(n, model.NodeUse{CPU: cpu, MemoryMB: mem, DiskMB: disk}) {
				return
			}
		}
	}
}
func (v *memView) JobOf(a *model.Allocation) *model.Job {
	for _, j := range v.jobs[a.JobID] {
		if j.Version == a.JobVersion && j.Owns(a) {
			return j
		}
	}
	for _, j := range v.former[a.JobID] {
		if j.Version == a.JobVersion {
			return j
		}
	}
	return nil
}
func (v *memView) NodeUsed(id string) (cpu, mem, disk int64) {
	for _, a := range v.allocs {
		if a.NodeID == id && !a.ClientTerminalStatus() {
			r := a.AllocatedResources.Comparable()
			cpu, mem, disk = cpu+r.CPUShares, mem+r.MemoryMB, disk+r.DiskMB
		}
	}
	return
}
func (v *memView) LatestDeployment(_, job string) *model.Deployment {
	for _, d := range slices.Backward(v.deployments) {
		if d.JobID == job {
			return d
		}
	}
	return nil
}
func (v *memView) SchedulerConfig() *model.SchedulerConfiguration { return &v.config }
func (v *memView) NamespaceByName(string) *model.Namespace        { return nil }
func (v *memView) NodePoolByName(string) *model.NodePool          { return nil }

// apply commits a plan as core/fsm does, as far as the scheduler can see.
func (v *memView) apply(p *model.Plan) {
	v.index++
	if d := p.Deployment; d != nil {
		v.deployments = slices.DeleteFunc(v.deployments, func(old *model.Deployment) bool { return old.ID == d.ID })
		v.deployments = append(v.deployments, d.Copy())
	}
	for _, u := range p.DeploymentUpdates {
		for _, d := range v.deployments {
			if d.ID == u.DeploymentID {
				d.Status, d.StatusDescription = u.Status, u.StatusDescription
			}
		}
	}
	preempted := map[string][]string{}
	for i := range p.Change {
		c := &p.Change[i]
		if c.PreemptedBy != "" {
			preempted[c.PreemptedBy] = append(preempted[c.PreemptedBy], c.AllocID)
		}
		v.allocs[c.AllocID] = c.Make(v.allocs[c.AllocID], p.EvalID, 0)
	}
	for _, a := range p.Place {
		v.put(a)
		if by := preempted[a.ID]; by != nil {
			v.allocs[a.ID].PreemptedAllocations = by
		}
	}
}

func (v *memView) put(a *model.Allocation) {
	c := *a
	if v.allocs[a.ID] == nil {
		c.CreateIndex = v.index
		if prev := v.allocs[a.PreviousAllocation]; prev != nil {
			p := *prev
			p.NextAllocation = a.ID
			v.allocs[p.ID] = &p
		}
		if d := v.LatestDeployment("", a.JobID); d != nil && d.ID == a.DeploymentID {
			if ds := d.TaskGroups[a.TaskGroup]; ds != nil {
				ds.PlacedAllocs++
				if ds.RequireProgressBy.IsZero() {
					ds.RequireProgressBy = time.Unix(1, 0) // as the state does, with the time
				}
			}
		}
		if a.DeploymentStatus.IsCanary() {
			ds := v.LatestDeployment("", a.JobID).TaskGroups[a.TaskGroup]
			ds.PlacedCanaries = append(ds.PlacedCanaries, a.ID)
		}
	}
	if old := v.allocs[a.ID]; old != nil && c.NextAllocation == "" {
		c.NextAllocation = old.NextAllocation
	}
	v.allocs[a.ID] = &c
}

// counter makes ids that sort in the order in which they were made.
type counter struct{ n int }

func (c *counter) NewID() string { c.n++; return fmt.Sprintf("id%04d", c.n) }
