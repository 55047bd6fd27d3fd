// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"slices"
	"time"
)

// AllocChangeKind is what a plan may do to an alloc that exists.
type AllocChangeKind uint8

// Kinds of changes. Their numbers are stored.
const (
	// AllocStop ends the alloc. With a ClientStatus servers say how it ended or
	// that nobody knows, since its node cannot.
	AllocStop AllocChangeKind = 1
	// AllocUpdateInPlace lets the alloc run on under another version of its job.
	AllocUpdateInPlace AllocChangeKind = 2
	// AllocMarkUnknown says that the alloc's node is out of reach.
	AllocMarkUnknown AllocChangeKind = 3
	// AllocSetFollowUp names the evaluation that looks at the alloc again; "" is none.
	AllocSetFollowUp AllocChangeKind = 4
)

// AllocChange is what a plan changes of one alloc that exists: only what its
// kind needs is set. Refused says when it may be applied, Make what it does; the
// scheduler, the applier and the log all use these two.
type AllocChange struct {
	Kind    AllocChangeKind
	AllocID string

	Description       string // AllocStop: why
	ClientStatus      string // AllocStop: lost or unknown; "": left to the node
	ClientDescription string // AllocStop with a ClientStatus, AllocMarkUnknown
	JobVersion        uint64 // AllocUpdateInPlace
	DeploymentID      string // AllocUpdateInPlace: the one that it joins; "": it stays in its own
	FollowupEvalID    string // AllocMarkUnknown, AllocSetFollowUp
	At                int64  // AllocMarkUnknown: since when, Unix ns
}

// Refused says why the change, planned on the state at index planned, may not be
// made to the alloc as it is now (nil: gone), or "". n is the alloc's node, nil
// if that is gone.
func (c *AllocChange) Refused(a *Allocation, n *Node, planned uint64) string {
	silent := c.Kind == AllocMarkUnknown || c.Kind == AllocStop && c.ClientStatus != ""
	switch {
	case a == nil:
		return "alloc does not exist any more"
	case a.ServerTerminalStatus() && !(c.Kind == AllocStop && silent):
		return "alloc is stopped already"
	case c.Kind != AllocStop && c.Kind != AllocSetFollowUp && a.ClientTerminalStatus():
		return "alloc has ended meanwhile"
	case silent:
		return heardOf(a, n, planned)
	case c.Kind == AllocStop, c.Kind == AllocUpdateInPlace, c.Kind == AllocSetFollowUp:
		return "" // an end is always right, whatever the node says meanwhile
	}
	return "unknown change of an alloc"
}

// heardOf says that an alloc whose node was out of reach when a plan was made,
// or the node, has been heard of since.
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

// Make returns the alloc as the change leaves it; a stays as it is. now is in Unix ns.
func (c *AllocChange) Make(a *Allocation, evalID string, now int64) *Allocation {
	n := *a
	n.EvalID, n.ModifyTime = evalID, now
	switch c.Kind {
	case AllocStop:
		n.DesiredStatus, n.DesiredDescription = AllocDesiredStatusStop, c.Description
		if c.ClientStatus != "" && !a.ClientTerminalStatus() {
			n.ClientStatus, n.ClientDescription = c.ClientStatus, c.ClientDescription
		}
	case AllocUpdateInPlace:
		n.JobVersion, n.Job = c.JobVersion, nil
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
