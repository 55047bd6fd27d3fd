// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drain

import (
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// keysOfJob returns the key of a changed or purged job whose data moves or did so before.
func keysOfJob(c state.Change) []string {
	for _, obj := range []any{c.New, c.Old} {
		if job, ok := obj.(*model.Job); ok && job != nil && slices.ContainsFunc(job.TaskGroups, func(tg *model.TaskGroup) bool { return tg.EphemeralDisk.Moves() }) {
			return []string{jobKey + job.Namespace + "/" + job.ID}
		}
	}
	return nil
}

// dataLeaves reports whether the data of an ended alloc of the node is still to go to the
// node of its successor: that is pending until it has the data, or no node has had room
// for it yet.
func (w *work) dataLeaves(n *model.Node) bool {
	for _, a := range w.in.View.AllocsByNode(n.ID) {
		if !a.ClientTerminalStatus() || !w.movesData(a) {
			continue
		}
		if a.NextAllocation == "" {
			if w.wantsSuccessor(a) {
				return true
			}
			continue
		}
		next := w.in.View.AllocByID(a.NextAllocation)
		if next != nil && next.NodeID != n.ID && next.ClientStatus == model.AllocClientStatusPending && !next.TerminalStatus() {
			return true
		}
	}
	return false
}

func (w *work) movesData(a *model.Allocation) bool {
	tg := w.specOf(a)
	return tg != nil && tg.EphemeralDisk.Moves()
}

// wantsSuccessor reports whether the job of an alloc that migrated is short of allocs, so that
// the alloc's successor is still to come.
func (w *work) wantsSuccessor(a *model.Allocation) bool {
	job := w.in.View.JobByID(a.Namespace, a.JobID)
	if !a.DesiredTransition.ShouldMigrate() || job.Stopped() || job.Type != model.JobTypeService || !job.Owns(a) {
		return false
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	return tg != nil && tg.EphemeralDisk.Moves() && w.runs(job, groupOf(a)) < tg.Count
}

// runs returns how many allocs of a group have not ended and are not asked to. It counts them
// once, since a draining node may have many ended allocs of a group.
func (w *work) runs(job *model.Job, g group) int {
	n, counted := w.running[g]
	if !counted {
		for _, a := range w.in.View.AllocsByJob(g.namespace, g.job) {
			if a.TaskGroup == g.name && job.Owns(a) && !a.TerminalStatus() {
				n++
			}
		}
		w.running[g] = n
	}
	return n
}
