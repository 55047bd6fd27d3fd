// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"iter"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// View is the part of the state on which a decision may depend. *state.View implements
// it.
type View interface {
	Index() uint64
	JobByID(namespace, id string) *model.Job
	JobByVersion(namespace, id string, version uint64) *model.Job
	AllocByID(id string) *model.Allocation
	AllocsByJob(namespace, id string) []*model.Allocation
	AllocsByNode(nodeID string) []*model.Allocation
	NodeByID(id string) *model.Node
	// Fleet returns the nodes. It must not be changed.
	Fleet() *model.Fleet
	// NodesWithUse yields the nodes in the order of the fleet's rows, with the resource usage
	// of their allocs.
	NodesWithUse() iter.Seq2[*model.Node, model.NodeUse]
	NodeUsed(nodeID string) (cpu, mem, disk int64)
	LatestDeployment(namespace, jobID string) *model.Deployment
	SchedulerConfig() *model.SchedulerConfiguration
	NodePoolByName(name string) *model.NodePool
	NamespaceByName(name string) *model.Namespace
	feasible.VolumeView
}

// IDSource generates ids.
type IDSource interface{ NewID() string }

// Outcome is the result of processing an evaluation.
type Outcome struct {
	Plan *model.Plan

	// Eval is the evaluation as it should be stored after the plan is committed:
	// complete, or still blocked if it was blocked before.
	Eval *model.Evaluation
	// Blocked is a new evaluation that waits for resources for the failed placements,
	// or nil.
	Blocked *model.Evaluation
	// FollowUps are evaluations at later times. They must be stored before the plan,
	// whose allocs refer to them.
	FollowUps []*model.Evaluation

	QueuedAllocations map[string]int
	FailedTGAllocs    map[string]*model.AllocMetric
	Held              map[string]*model.Hold // by group: what waits for dependencies
	Annotations       *model.PlanAnnotations
}
