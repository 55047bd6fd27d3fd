// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"iter"

	"github.com/drover-project/drover/core/model"
)

// View is what of the state a decision may depend on; *state.View satisfies it.
type View interface {
	Index() uint64
	JobByID(namespace, id string) *model.Job
	JobByVersion(namespace, id string, version uint64) *model.Job
	AllocByID(id string) *model.Allocation
	AllocsByJob(namespace, id string) []*model.Allocation
	AllocsByNode(nodeID string) []*model.Allocation
	NodeByID(id string) *model.Node
	NodeCount() int // upper bound of what NodesWithUse yields
	// NodesWithUse yields the nodes, ordered by id, with what their allocs use.
	NodesWithUse() iter.Seq2[*model.Node, model.NodeUse]
	NodeUsed(nodeID string) (cpu, mem, disk int64)
	LatestDeployment(namespace, jobID string) *model.Deployment
	SchedulerConfig() *model.SchedulerConfiguration
	NodePoolByName(name string) *model.NodePool
}

// IDSource makes new ids.
type IDSource interface{ NewID() string }

// Outcome is what an evaluation leads to.
type Outcome struct {
	Plan *model.Plan

	// Eval is the evaluation as it shall be stored once the plan is committed:
	// complete, or blocked again if it was a blocked one and still is.
	Eval *model.Evaluation
	// Blocked waits for room for what could not be placed, or is nil.
	Blocked *model.Evaluation
	// FollowUps wait for a time. They must be stored before the plan, whose allocs refer to them.
	FollowUps []*model.Evaluation

	QueuedAllocations map[string]int
	FailedTGAllocs    map[string]*model.AllocMetric
	Annotations       *model.PlanAnnotations
}
