// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"iter"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// Altered is a view as if a job or nodes were other than they are.
type Altered struct {
	View
	Job   *model.Job             // nil: the jobs are as they are
	Nodes map[string]*model.Node // those that differ, by id; the others are as they are
	moves map[string]bool        // nodes from which allocs have to move
}

// Down makes a node vanish: what runs there is lost.
func (v *Altered) Down(n *model.Node) {
	c := n.Copy()
	c.Status = model.NodeStatusDown
	v.set(c)
}

// Drain makes a node drain: what runs there moves, all at once.
func (v *Altered) Drain(n *model.Node) {
	c := n.Copy()
	c.DrainStrategy, c.SchedulingEligibility = &model.DrainStrategy{}, model.NodeSchedulingIneligible
	v.set(c)
	if v.moves == nil {
		v.moves = map[string]bool{}
	}
	v.moves[n.ID] = true
}

func (v *Altered) set(n *model.Node) {
	if v.Nodes == nil {
		v.Nodes = map[string]*model.Node{}
	}
	v.Nodes[n.ID] = n
}

// AllocsByJob returns the allocs of a job; those on draining nodes are to migrate.
func (v *Altered) AllocsByJob(ns, id string) []*model.Allocation {
	all := v.View.AllocsByJob(ns, id)
	if len(v.moves) == 0 {
		return all
	}
	out, yes := slices.Clone(all), true
	for i, a := range out {
		if v.moves[a.NodeID] && !a.TerminalStatus() {
			c := *a
			c.DesiredTransition.Migrate = &yes
			out[i] = &c
		}
	}
	return out
}

func (v *Altered) isJob(ns, id string) bool {
	return v.Job != nil && ns == v.Job.Namespace && id == v.Job.ID
}

// JobByID returns the altered job for its own name.
func (v *Altered) JobByID(ns, id string) *model.Job {
	if v.isJob(ns, id) {
		return v.Job
	}
	return v.View.JobByID(ns, id)
}

// JobByVersion returns the altered job for its own name and version.
func (v *Altered) JobByVersion(ns, id string, version uint64) *model.Job {
	if v.isJob(ns, id) && version == v.Job.Version {
		return v.Job
	}
	return v.View.JobByVersion(ns, id, version)
}

// JobOf returns the job of an alloc. For an alloc that only the plan has, this is the altered
// job, which the state may not have.
func (v *Altered) JobOf(a *model.Allocation) *model.Job {
	if v.isJob(a.Namespace, a.JobID) && a.JobVersion == v.Job.Version && v.Job.Owns(a) {
		return v.Job
	}
	return v.View.JobOf(a)
}

// NodeByID returns a node as it would be.
func (v *Altered) NodeByID(id string) *model.Node {
	if n := v.Nodes[id]; n != nil {
		return n
	}
	return v.View.NodeByID(id)
}

// Fleet returns the nodes as they would be.
func (v *Altered) Fleet() *model.Fleet {
	f := v.View.Fleet()
	if len(v.Nodes) == 0 {
		return f
	}
	other := map[int]*model.Node{}
	for row, n := range f.Nodes {
		if o := v.Nodes[n.ID]; o != nil {
			other[row] = o
		}
	}
	return f.Replace(other)
}

// NodesWithUse yields the nodes as they would be.
func (v *Altered) NodesWithUse() iter.Seq2[*model.Node, model.NodeUse] {
	if len(v.Nodes) == 0 {
		return v.View.NodesWithUse()
	}
	return func(yield func(*model.Node, model.NodeUse) bool) {
		for n, use := range v.View.NodesWithUse() {
			if other := v.Nodes[n.ID]; other != nil {
				n = other
			}
			if !yield(n, use) {
				return
			}
		}
	}
}
