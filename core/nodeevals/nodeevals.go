// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package nodeevals says which evaluations follow from a change of a node. It is pure
// and proposes nothing: core/dispatch does when nodes register, vanish and come back,
// core/endpoint when users change them.
package nodeevals

import (
	"iter"
	"time"

	"github.com/drover-project/drover/core/model"
)

// View is the part of the state that Of reads.
type View interface {
	JobByID(ns, id string) *model.Job
	SystemJobs() iter.Seq[*model.Job]
	AllocsByNode(nodeID string) []*model.Allocation
}

// Needed reports whether a registration requires evaluations: the node is new (before
// is nil), is back, or can run other things than before.
func Needed(before, after *model.Node) bool {
	return before == nil || before.Status != model.NodeStatusReady || before.ComputedClass != after.ComputedClass
}

// Of returns an evaluation for every job with a live alloc on the node, or with one that
// is lost and was not replaced, since its place may be free now that the node is back, and
// for every system job, since it may now run there or no longer. newID generates UUIDs.
func Of(view View, node *model.Node, now time.Time, newID func() string) []*model.Evaluation {
	seen := map[model.JobKey]bool{}
	var evals []*model.Evaluation
	add := func(job *model.Job) {
		if seen[job.Key()] {
			return
		}
		seen[job.Key()] = true
		e := model.NewEvaluation(newID(), model.EvalTriggerNodeUpdate, job, now)
		e.NodeID, e.NodeModifyIndex = node.ID, node.ModifyIndex
		evals = append(evals, e)
	}
	for _, a := range view.AllocsByNode(node.ID) {
		if !a.ClientTerminalStatus() || a.ClientStatus == model.AllocClientStatusLost && a.NextAllocation == "" {
			job := view.JobByID(a.Namespace, a.JobID)
			if job == nil { // purged: if the node is down, no other evaluation marks its alloc as lost
				job = model.Purged(a.JobKey())
			}
			add(job)
		}
	}
	for job := range view.SystemJobs() {
		if !job.Stop && !job.IsPeriodic() && !job.IsParameterized() {
			add(job)
		}
	}
	return evals
}
