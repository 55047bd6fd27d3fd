// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// Plan is what the scheduler proposes for one evaluation. The applier accepts
// it node by node.
type Plan struct {
	EvalID        string
	Priority      int
	AllAtOnce     bool
	Job           *Job   // the version that is placed
	SnapshotIndex uint64 // state that was planned on

	NodeUpdate      map[string][]*Allocation // stop, by node
	NodeAllocation  map[string][]*Allocation // place or update in place, by node
	NodePreemptions map[string][]*Allocation // evict, by node

	Deployment        *Deployment               // a deployment to create
	DeploymentUpdates []*DeploymentStatusUpdate // existing ones to change
	Annotations       *PlanAnnotations
}

// IsNoOp reports whether applying the plan changes nothing.
func (p *Plan) IsNoOp() bool {
	return len(p.NodeUpdate) == 0 && len(p.NodeAllocation) == 0 && len(p.NodePreemptions) == 0 &&
		p.Deployment == nil && len(p.DeploymentUpdates) == 0
}

// PlanResult is what of a plan was committed.
type PlanResult struct {
	NodeUpdate        map[string][]*Allocation
	NodeAllocation    map[string][]*Allocation
	NodePreemptions   map[string][]*Allocation
	Deployment        *Deployment
	DeploymentUpdates []*DeploymentStatusUpdate
	Rejections        []PlanRejection // nodes whose part was refused
	RefreshIndex      uint64          // not 0: look at state of at least this index before planning again
	AllocIndex        uint64          // index at which the result was committed
}

// FullCommit reports whether everything of p was committed, and how much was expected and done.
func (r *PlanResult) FullCommit(p *Plan) (full bool, expected, actual int) {
	for node, allocs := range p.NodeAllocation {
		expected += len(allocs)
		actual += len(r.NodeAllocation[node])
	}
	return expected == actual, expected, actual
}

// PlanRejection is why a node's part of a plan was refused.
type PlanRejection struct {
	NodeID string
	Reason string // e.g. "node is down", "cpu exhausted", "port 8080 in use"
	Index  uint64 // state index that a worker must reach before it tries again
}

// PlanAnnotations says what a plan does to each group.
type PlanAnnotations struct {
	DesiredTGUpdates map[string]*DesiredUpdates
	PreemptedAllocs  []*AllocListStub
}

// DesiredUpdates counts what happens to the allocs of a group.
type DesiredUpdates struct {
	Ignore            uint64
	Place             uint64
	Migrate           uint64
	Stop              uint64
	InPlaceUpdate     uint64
	DestructiveUpdate uint64
	Canary            uint64
	Preemptions       uint64
	Disconnect        uint64
	Reconnect         uint64
	RescheduleNow     uint64
	RescheduleLater   uint64
}
