// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	allocsByJob = iota
	allocsByNode
	allocsByEval
	allocsByDeployment
)

// TableAllocs is the name of the table of allocs.
const TableAllocs = "allocs"

var allocTable = &kind[model.Allocation]{
	heading: heading{name: TableAllocs},
	schema: schema[model.Allocation]{
		id: func(a *model.Allocation) string { return a.ID },
		secondaries: []secondary[model.Allocation]{
			allocsByJob:        {name: ByJob, watched: true, key: func(a *model.Allocation) string { return JobKey(a.Namespace, a.JobID) }},
			allocsByNode:       {name: ByNode, watched: true, key: func(a *model.Allocation) string { return a.NodeID }},
			allocsByEval:       {name: ByEval, watched: true, key: func(a *model.Allocation) string { return a.EvalID }},
			allocsByDeployment: {name: ByDeployment, watched: true, key: func(a *model.Allocation) string { return a.DeploymentID }},
		},
	},
	saveAll: (*saver).allocs,
	loadAll: map[byte]func(*loader, *table[model.Allocation], []byte) error{recResources: (*loader).resource, recMetrics: (*loader).metric, recAlloc: (*loader).alloc},
}

// AllocByID returns an alloc.
func (v *View) AllocByID(id string) *model.Allocation { return allocTable.in(v.t).get(id) }

// ShortAllocID returns the length in bytes of the shortest prefix of an alloc's UUID that
// no other alloc of this state has; 0 if there is no such alloc.
func (v *View) ShortAllocID(id string) int { return allocTable.in(v.t).ids.own(id) }

// AllocByShortID returns the alloc whose UUID begins with the given bytes, among the allocs
// created up to an index; nil unless there is exactly one.
func (v *View) AllocByShortID(first string, index uint64) (found *model.Allocation) {
	t := allocTable.in(v.t)
	for h := range t.ids.beginning(first) {
		a := t.rows.get(h)
		if a.CreateIndex > index {
			continue
		}
		if found != nil {
			return nil
		}
		found = a
	}
	return found
}

// AllocsByJob returns the allocs of all versions of a job.
func (v *View) AllocsByJob(ns, id string) []*model.Allocation {
	return allocTable.in(v.t).list(allocsByJob, JobKey(ns, id))
}

// JobAllocs yields the allocs of all versions of a job without making a slice.
func (v *View) JobAllocs(ns, id string) iter.Seq[*model.Allocation] {
	return allocTable.in(v.t).scan(allocsByJob, JobKey(ns, id))
}

// AllocsByNode returns the allocs of a node.
func (v *View) AllocsByNode(nodeID string) []*model.Allocation {
	return allocTable.in(v.t).list(allocsByNode, nodeID)
}

// NodeAllocs yields the allocs of a node without making a slice.
func (v *View) NodeAllocs(nodeID string) iter.Seq[*model.Allocation] {
	return allocTable.in(v.t).scan(allocsByNode, nodeID)
}

// AllocsByEval returns the allocs that an eval made or changed last.
func (v *View) AllocsByEval(evalID string) []*model.Allocation {
	return allocTable.in(v.t).list(allocsByEval, evalID)
}

// AllocsByDeployment returns the allocs of a deployment.
func (v *View) AllocsByDeployment(id string) []*model.Allocation {
	return allocTable.in(v.t).list(allocsByDeployment, id)
}

// Allocs yields all allocs ordered by id.
func (v *View) Allocs() iter.Seq[*model.Allocation] { return allocTable.in(v.t).all("") }

// AllocWithJob returns a copy of the alloc with Job set to the version that it runs.
// The job is shared.
func (v *View) AllocWithJob(a *model.Allocation) *model.Allocation {
	if a == nil {
		return nil
	}
	c := *a
	c.Job = v.JobOf(a)
	return &c
}

// writeAlloc stores an alloc and updates what is derived from allocs.
func (tx *Tx) writeAlloc(a *model.Allocation) {
	if a.Job != nil {
		a.JobVersion = a.Job.Version
		a.Job = nil
	}
	a.ModifyIndex = tx.index
	tx.registerAnew(allocTable.in(tx.t).find(a.ID), a)
	old := allocTable.in(tx.t).put(a)
	tx.accountAlloc(old, a)
	record(tx, allocTable, old, a)
}

// PlaceAlloc stores a new alloc of the scheduler. It does not change an alloc that
// already exists. The transaction takes ownership of a.
func (tx *Tx) PlaceAlloc(a *model.Allocation, now int64) {
	if allocTable.in(tx.t).find(a.ID) != nil {
		return
	}
	a.CreateIndex, a.AllocModifyIndex = tx.index, tx.index
	a.CreateTime, a.ModifyTime = now, now
	if a.ClientStatus == "" {
		a.ClientStatus = model.AllocClientStatusPending
	}
	tx.linkPrevious(a)
	if a.DeploymentStatus != nil && a.DeploymentStatus.ModifyIndex == 0 {
		s := *a.DeploymentStatus
		s.ModifyIndex = tx.index
		a.DeploymentStatus = &s
	}
	tx.writeAlloc(a)
	tx.claimVolumes(a)
}

// linkPrevious records a as the successor of the alloc that it replaces.
func (tx *Tx) linkPrevious(a *model.Allocation) {
	if a.PreviousAllocation == "" {
		return
	}
	prev := allocTable.in(tx.t).find(a.PreviousAllocation)
	if prev == nil || prev.NextAllocation == a.ID {
		return
	}
	c := *prev
	c.NextAllocation = a.ID
	tx.writeAlloc(&c)
}

// ChangeAlloc applies a plan's change to an alloc. The caller has checked it with
// AllocChange.Refused. Fields that the change does not set keep their values. now is
// in Unix ns.
func (tx *Tx) ChangeAlloc(c *model.AllocChange, evalID string, now int64) error {
	old := allocTable.in(tx.t).find(c.AllocID)
	if old == nil {
		return allocNotFound(c.AllocID)
	}
	a := c.Make(old, evalID, now)
	a.AllocModifyIndex = tx.index
	tx.writeAlloc(a)
	return nil
}

// UpdateAllocFromClient applies the news in a node's report on an alloc, see
// model.Allocation.News. at is the servers' time.
func (tx *Tx) UpdateAllocFromClient(r *model.AllocReport, at int64) error {
	old := allocTable.in(tx.t).find(r.ID)
	if old == nil {
		return allocNotFound(r.ID)
	}
	news, _ := old.News(r) // checked again here: the entry may have been proposed on an older state
	if news == nil {
		return nil
	}
	c := old.WithNews(news)
	back := old.ClientStatus == model.AllocClientStatusUnknown && c.ClientStatus != model.AllocClientStatusUnknown
	if back {
		c.FollowupEvalID = "" // the follow-up was for the end of the disconnect; the next one is for the next failure
	}
	failed := c.ClientStatus == model.AllocClientStatusFailed && old.ClientStatus != c.ClientStatus
	if back || failed && tx.View().Level() >= levelFailedAt {
		c.AllocStates = append(slices.Clip(c.AllocStates), becameNow(c.ClientStatus, at))
	}
	if !old.ClientTerminalStatus() && c.ClientTerminalStatus() && tx.View().Level() >= levelLoss {
		c.FollowupEvalID = "" // it was for an unhealthy alloc that runs; the next one is for its failure
	}
	if h := news.Health; h != nil {
		c.DeploymentStatus = &model.AllocDeploymentStatus{
			Healthy: &h.Healthy, Timestamp: time.Unix(0, at).UTC(), Canary: old.DeploymentStatus.IsCanary(), ModifyIndex: tx.index,
		}
	}
	c.ModifyTime = at
	tx.writeAlloc(c)
	return nil
}

// SetDesiredTransition stores a request of an operator or a controller to the
// scheduler. Fields that are not set in d keep their values.
func (tx *Tx) SetDesiredTransition(id string, d model.DesiredTransition) error {
	old := allocTable.in(tx.t).find(id)
	if old == nil {
		return allocNotFound(id)
	}
	c := *old
	t := &c.DesiredTransition
	for _, f := range []struct{ dst, src **bool }{
		{&t.Migrate, &d.Migrate},
		{&t.Reschedule, &d.Reschedule},
		{&t.ForceReschedule, &d.ForceReschedule},
		{&t.NoShutdownDelay, &d.NoShutdownDelay},
		{&t.MigrateDisablePlacement, &d.MigrateDisablePlacement},
	} {
		if *f.src != nil {
			*f.dst = *f.src
		}
	}
	tx.writeAlloc(&c)
	return nil
}

// DeleteAlloc removes an alloc, if it exists.
func (tx *Tx) DeleteAlloc(id string) {
	old := allocTable.in(tx.t).delete(id)
	if old == nil {
		return
	}
	tx.accountAlloc(old, nil)
	record(tx, allocTable, old, nil)
}

func allocNotFound(id string) error {
	return errdefs.NotFoundf("alloc %q does not exist; it may have been garbage collected", id)
}

// levelFailedAt is the level from which on an alloc records when servers have heard of its
// failure.
const levelFailedAt = 2

// becameNow is the entry of an alloc's history for a status that its node has reported. Its
// time is the servers': what depends on it does not depend on the clock of the node.
func becameNow(status string, at int64) *model.AllocState {
	return &model.AllocState{Field: "ClientStatus", Value: status, Time: time.Unix(0, at).UTC()}
}
