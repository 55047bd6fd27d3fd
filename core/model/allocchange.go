// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"slices"
	"time"
)

// AllocChangeKind is a kind of change that a plan may make to an existing alloc.
type AllocChangeKind uint8

// Kinds of changes. Their numbers are stored in the log.
const (
	// AllocStop stops the alloc. A ClientStatus is set if the node cannot report how
	// the alloc ended (lost), or cannot be reached (unknown). With PreemptedBy the alloc is
	// evicted: a new alloc of a more important job takes its place.
	AllocStop AllocChangeKind = 1
	// AllocUpdateInPlace keeps the alloc running, with another version of its job and,
	// where Resources are set, with other resources.
	AllocUpdateInPlace AllocChangeKind = 2
	// AllocMarkUnknown marks an alloc whose node is unreachable.
	AllocMarkUnknown AllocChangeKind = 3
	// AllocSetFollowUp sets the evaluation that will process the alloc again; ""
	// removes it.
	AllocSetFollowUp AllocChangeKind = 4
)

// AllocChange is a plan's change of one existing alloc. Only the fields that its kind
// needs are set. Refused decides whether it may be applied, and Make applies it; the
// scheduler, the plan applier and the log all use these two methods.
type AllocChange struct {
	Kind    AllocChangeKind
	AllocID string

	Description       string // AllocStop: why
	ClientStatus      string // lost or unknown; "" if the node will report the status
	ClientDescription string // AllocStop with a ClientStatus, AllocMarkUnknown
	JobVersion        uint64 // AllocUpdateInPlace
	DeploymentID      string // the deployment that it joins; "" keeps its deployment
	FollowupEvalID    string // AllocMarkUnknown, AllocSetFollowUp
	At                int64  // AllocMarkUnknown: since when, Unix ns

	Resources *AllocatedResources // AllocUpdateInPlace: nil keeps its resources

	PreemptedBy string // AllocStop: the new alloc of the same plan that needs its resources
}

// Refused returns why the change, which was planned on the state at index planned,
// must not be applied to the alloc in its current state (nil if it no longer exists),
// or "" if it may. n is the alloc's node, nil if that no longer exists.
func (c *AllocChange) Refused(a *Allocation, n *Node, planned uint64) string {
	silent := c.Kind == AllocMarkUnknown || c.Kind == AllocStop && c.ClientStatus != ""
	switch {
	case a == nil:
		return "alloc does not exist any more"
	case a.ServerTerminalStatus() && !(c.Kind == AllocStop && silent):
		return "alloc is stopped already"
	case c.PreemptedBy != "" && (c.Kind != AllocStop || silent):
		return "unknown change of an alloc"
	case c.PreemptedBy != "" && a.ClientTerminalStatus(): // completed work is not done again
		return "alloc has ended meanwhile"
	case c.Kind != AllocStop && c.Kind != AllocSetFollowUp && a.ClientTerminalStatus():
		return "alloc has ended meanwhile"
	case silent:
		return heardOf(a, n, planned)
	case c.Kind == AllocStop, c.Kind == AllocUpdateInPlace, c.Kind == AllocSetFollowUp:
		return "" // a stop is always valid, whatever the node has reported meanwhile
	}
	return "unknown change of an alloc"
}

// heardOf returns a reason if the alloc, whose node was unreachable when the plan
// was made, has been reported since, or its node has reconnected. Otherwise it
// returns "".
func heardOf(a *Allocation, n *Node, planned uint64) string {
	switch {
	case a.ClientTerminalStatus() && a.ClientStatus != AllocClientStatusLost:
		return "alloc has ended meanwhile"
	case a.ModifyIndex > planned && a.ClientStatus != AllocClientStatusUnknown:
		return "alloc has changed meanwhile"
	case n != nil && n.ModifyIndex > planned && n.Status == NodeStatusReady:
		return "node is back meanwhile"
	}
	return ""
}

// Make returns the alloc after the change; a is not modified. now is in Unix ns.
func (c *AllocChange) Make(a *Allocation, evalID string, now int64) *Allocation {
	n := *a
	n.EvalID, n.ModifyTime = evalID, now
	switch c.Kind {
	case AllocStop:
		n.DesiredStatus, n.DesiredDescription = AllocDesiredStatusStop, c.Description
		if c.PreemptedBy != "" {
			n.DesiredStatus, n.DesiredDescription = AllocDesiredStatusEvict, DescPreempted+c.PreemptedBy
			n.PreemptedByAllocation = c.PreemptedBy
		}
		if c.ClientStatus != "" && !a.ClientTerminalStatus() {
			n.ClientStatus, n.ClientDescription = c.ClientStatus, c.ClientDescription
		}
	case AllocUpdateInPlace:
		n.JobVersion, n.Job = c.JobVersion, nil
		if c.Resources != nil {
			n.AllocatedResources = c.Resources
		}
		if c.DeploymentID != "" && c.DeploymentID != a.DeploymentID {
			n.DeploymentID, n.DeploymentStatus = c.DeploymentID, nil
		}
	case AllocMarkUnknown:
		n.ClientStatus, n.ClientDescription = AllocClientStatusUnknown, c.ClientDescription
		n.FollowupEvalID = c.FollowupEvalID
		n.AllocStates = append(slices.Clip(a.AllocStates), &AllocState{
			Field: "ClientStatus", Value: AllocClientStatusUnknown, Time: time.Unix(0, c.At).UTC(),
		})
	case AllocSetFollowUp:
		n.FollowupEvalID = c.FollowupEvalID
	}
	return &n
}
