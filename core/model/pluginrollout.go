// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Statuses of the roll-out of a plugin's release.
const (
	PluginRolloutRunning  = "running"
	PluginRolloutPaused   = "paused" // admitted nodes finish; no further node is admitted
	PluginRolloutComplete = "complete"
	PluginRolloutFailed   = "failed" // ended; nodes keep what they have
)

// Actions of an operator on a roll-out.
const (
	PluginRolloutPause  = "pause"
	PluginRolloutResume = "resume"
	PluginRolloutRevert = "revert"
)

// PluginRollout is the progress of a release. The nodes that have the release are not
// stored here: nodes report it themselves (Node.PluginReleases).
type PluginRollout struct {
	Status      string
	Description string
	// InFlight are the nodes that were admitted and have not finished, sorted by id.
	InFlight []*PluginAdmission
	// Cursor is where the iteration over nodes continues: nodes with smaller ids were
	// already considered.
	Cursor string
	// GivenUp is the release that this roll-out reverts, nil if it is not a revert.
	GivenUp *PluginGivenUp
}

// PluginAdmission allows one node to change to the release until a deadline.
type PluginAdmission struct {
	NodeID      string
	Deadline    int64 // Unix nanoseconds, like HealthyFrom
	HealthyFrom int64 // time since which the node runs the release; 0 if it does not yet
}

// PluginGivenUp is a release that was reverted.
type PluginGivenUp struct {
	Revision uint64
	Version  string
	Digest   string
	Reason   string
}

// Active reports whether the roll-out may still admit nodes without an operator.
func (r *PluginRollout) Active() bool { return r != nil && r.Status == PluginRolloutRunning }

// Admits returns the admission of a node, nil if it has none.
func (r *PluginRollout) Admits(nodeID string) *PluginAdmission {
	if r == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(r.InFlight, nodeID, func(a *PluginAdmission, id string) int { return strings.Compare(a.NodeID, id) })
	if !found {
		return nil
	}
	return r.InFlight[i]
}

// NodeRelease is a node's report on a plugin from the registry.
type NodeRelease struct {
	Revision uint64 // revision of the release that the node runs, 0 if none
	Failed   uint64 // newest revision that could not be installed or stopped working
	Error    string // why it failed, or what the node waits for
}

// Register returns the spec to store when asked is registered over p (nil if there is
// none) at a log index. Registering an identical release does not change its roll-out,
// except that a failed roll-out is retried.
func (p *PluginSpec) Register(asked *PluginSpec, index uint64) *PluginSpec {
	next := *asked
	release := *asked.Release
	next.Release, next.Previous, next.Rollout = &release, nil, nil
	start := &PluginRollout{Status: PluginRolloutRunning}
	if p == nil {
		release.Revision = index
		next.Rollout = start
		return &next
	}
	next.Previous = p.newestComplete()
	switch {
	case !release.Same(p.Release) || p.Rollout.Status == PluginRolloutFailed:
		release.Revision = index
		next.Rollout = start
	case !next.sameTarget(p):
		next.Release, next.Rollout = p.Release, start
		if p.Rollout.Status == PluginRolloutPaused {
			start.Status = PluginRolloutPaused
		}
		start.InFlight, start.GivenUp = p.Rollout.InFlight, p.Rollout.GivenUp
		next.Previous = p.Previous
	default:
		next.Release, next.Previous, next.Rollout = p.Release, p.Previous, p.Rollout
	}
	return &next
}

// newestComplete returns the release to which nodes can revert from the release after
// p's.
func (p *PluginSpec) newestComplete() *PluginRelease {
	if p.Rollout.Status == PluginRolloutComplete {
		return p.Release
	}
	return p.Previous
}

// Steer returns the spec after an operator's action on its roll-out.
func (p *PluginSpec) Steer(act string, index uint64) (*PluginSpec, error) {
	next, rollout := *p, *p.Rollout
	next.Rollout = &rollout
	switch status := rollout.Status; act {
	case PluginRolloutPause:
		if status != PluginRolloutRunning {
			return nil, errdefs.FailedPreconditionf("the roll-out of plugin %q is %s: only one that runs can be paused", p.Name, status)
		}
		rollout.Status, rollout.Description = PluginRolloutPaused, "paused by an operator"
	case PluginRolloutResume:
		switch status {
		case PluginRolloutPaused:
			rollout.Status, rollout.Description = PluginRolloutRunning, ""
		case PluginRolloutFailed: // a new revision, so that nodes that failed may try again
			release := *p.Release
			release.Revision = index
			next.Release, next.Rollout = &release, &PluginRollout{Status: PluginRolloutRunning}
		default:
			return nil, errdefs.FailedPreconditionf("the roll-out of plugin %q is %s: there is nothing to resume", p.Name, status)
		}
	case PluginRolloutRevert:
		return p.Revert("reverted by an operator")
	default:
		return nil, errdefs.InvalidArgumentf("%q cannot be done to a roll-out; use pause, resume or revert", act)
	}
	return &next, nil
}

// Revert returns the spec with its release replaced by the previous one.
func (p *PluginSpec) Revert(reason string) (*PluginSpec, error) {
	if !p.CanRevert() {
		return nil, errdefs.FailedPreconditionf("plugin %q has no release before %s to go back to", p.Name, p.Release.Label())
	}
	next := *p
	next.Release = p.Previous
	next.Rollout = &PluginRollout{
		Status: PluginRolloutRunning, Description: "going back from " + p.Release.Label() + ": " + reason,
		GivenUp: &PluginGivenUp{Revision: p.Release.Revision, Version: p.Release.Version, Digest: p.Release.Digest, Reason: reason},
	}
	return &next, nil
}

// CanRevert reports whether there is a previous release.
func (p *PluginSpec) CanRevert() bool {
	return p.Previous != nil && p.Previous.Revision != p.Release.Revision
}
