// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// Plan is the scheduler's proposal for one evaluation, planned on the state at
// SnapshotIndex. It contains only its changes, so it does not overwrite what others
// have written since. The applier checks each part against the newest state.
type Plan struct {
	EvalID        string
	Priority      int
	AllAtOnce     bool // everything or nothing
	Namespace     string
	JobID         string
	Job           *Job   // newest version at planning time; nil if purged
	SnapshotIndex uint64 // index of the state that was planned on

	Place  []*Allocation // new allocs
	Change []AllocChange // changes of existing allocs

	Deployment        *Deployment               // a deployment to create
	DeploymentUpdates []*DeploymentStatusUpdate // existing ones to change
	Annotations       *PlanAnnotations

	// PreemptionEvals has one evaluation for each job of which Change preempts allocs. It is
	// stored together with the preemptions, if any of that job is accepted.
	PreemptionEvals []*Evaluation
}

// IsNoOp reports whether applying the plan changes nothing.
func (p *Plan) IsNoOp() bool {
	return len(p.Place) == 0 && len(p.Change) == 0 && p.Deployment == nil && len(p.DeploymentUpdates) == 0
}

// PlanResult is the accepted part of a plan.
type PlanResult struct {
	Place             []*Allocation
	Change            []AllocChange
	Deployment        *Deployment
	DeploymentUpdates []*DeploymentStatusUpdate
	Rejections        []PlanRejection // the parts that were refused
	RefreshIndex      uint64          // if not 0, the worker must wait for state of this index before it plans again
	AllocIndex        uint64          // index at which the result was committed
}

// IsNoOp reports whether nothing was accepted.
func (r *PlanResult) IsNoOp() bool {
	return len(r.Place) == 0 && len(r.Change) == 0 && r.Deployment == nil && len(r.DeploymentUpdates) == 0
}

// PlanRejection says why a part of a plan was rejected: the whole plan, the new allocs
// of a node, or the change of one alloc.
type PlanRejection struct {
	NodeID  string // "" unless it concerns one node
	AllocID string // "" unless it concerns one alloc
	Reason  string // e.g. "node is down", "cpu", "alloc has ended meanwhile"
}

func (r PlanRejection) String() string {
	switch {
	case r.AllocID != "":
		return "alloc " + r.AllocID + ": " + r.Reason
	case r.NodeID != "":
		return "node " + r.NodeID + ": " + r.Reason
	}
	return r.Reason
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
