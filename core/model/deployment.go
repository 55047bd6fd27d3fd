// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"slices"
	"time"
)

// Deployment statuses.
const (
	DeploymentStatusRunning    = "running"
	DeploymentStatusPaused     = "paused"
	DeploymentStatusFailed     = "failed"
	DeploymentStatusSuccessful = "successful"
	DeploymentStatusCancelled  = "cancelled"
)

// Status descriptions of deployments, with the reference's wording.
const (
	DeploymentStatusDescriptionRunning               = "Deployment is running"
	DeploymentStatusDescriptionRunningNeedsPromotion = "Deployment is running but requires manual promotion"
	DeploymentStatusDescriptionRunningAutoPromotion  = "Deployment is running pending automatic promotion"
	DeploymentStatusDescriptionPaused                = "Deployment is paused"
	DeploymentStatusDescriptionSuccessful            = "Deployment completed successfully"
	DeploymentStatusDescriptionStoppedJob            = "Cancelled because job is stopped"
	DeploymentStatusDescriptionNewerJob              = "Cancelled due to newer version of job"
	DeploymentStatusDescriptionFailedAllocations     = "Failed due to unhealthy allocations"
	DeploymentStatusDescriptionProgressDeadline      = "Failed due to progress deadline"
	DeploymentStatusDescriptionFailedByUser          = "Deployment marked as failed"
)

// Deployment is the roll-out of one version of a job.
type Deployment struct {
	ID                 string
	Namespace          string
	JobID              string
	JobVersion         uint64
	JobModifyIndex     uint64
	JobSpecModifyIndex uint64
	JobCreateIndex     uint64
	IsMultiregion      bool
	TaskGroups         map[string]*DeploymentState
	Status             string
	StatusDescription  string
	EvalPriority       int
	CreateIndex        uint64
	ModifyIndex        uint64
	CreateTime         int64 // Unix ns
	ModifyTime         int64 // Unix ns
}

// DeploymentState is the progress of one group.
type DeploymentState struct {
	AutoRevert        bool
	AutoPromote       bool
	ProgressDeadline  time.Duration
	RequireProgressBy time.Time // absolute; the deployment fails if it makes no progress until then
	Promoted          bool
	PlacedCanaries    []string
	DesiredCanaries   int
	DesiredTotal      int
	// Invariant: the counters include every alloc of the deployment. They may be higher,
	// because an alloc that was removed or has moved to a later deployment stays counted.
	PlacedAllocs    int
	HealthyAllocs   int
	UnhealthyAllocs int
}

// Active reports whether the deployment has not ended.
func (d *Deployment) Active() bool {
	if d == nil {
		return false
	}
	switch d.Status {
	case DeploymentStatusFailed, DeploymentStatusSuccessful, DeploymentStatusCancelled:
		return false
	}
	return true
}

// RequiresPromotion reports whether the deployment has canaries that must be promoted.
func (d *Deployment) RequiresPromotion() bool {
	return d != nil && d.Status == DeploymentStatusRunning && len(d.Unpromoted()) > 0
}

// Unpromoted returns the names of the groups whose canaries have not been promoted, in
// order.
func (d *Deployment) Unpromoted() (groups []string) {
	for name, g := range d.TaskGroups {
		if g.DesiredCanaries > 0 && !g.Promoted {
			groups = append(groups, name)
		}
	}
	slices.Sort(groups)
	return groups
}

// Done reports whether the group's roll-out is complete: its canaries, if it has any,
// are promoted, and as many allocs are healthy as are wanted. Canaries beyond that
// number are stopped by the promotion, so they are not waited for.
func (g *DeploymentState) Done() bool {
	return g.HealthyAllocs >= g.DesiredTotal && (g.DesiredCanaries == 0 || g.Promoted)
}

// Done reports whether all groups are done.
func (d *Deployment) Done() bool {
	for _, g := range d.TaskGroups {
		if !g.Done() {
			return false
		}
	}
	return true
}

// Rollback says what becomes of the job when the deployment fails and is to be reverted: the
// version to which it is rolled back, or nil, and in both cases why, in words that continue
// the description of the failure. versions are those of the job, newest first.
//
// The newest stable version before the deployment's is chosen. If that has the specification
// which has just failed, an older one would be no answer either: the reason lies elsewhere.
func (d *Deployment) Rollback(versions []*Job) (to *Job, why string) {
	switch {
	case len(versions) == 0 || versions[0].CreateIndex != d.JobCreateIndex:
		return nil, "not rolling back as the job was purged"
	case versions[0].Version != d.JobVersion && versions[0].Stop:
		return nil, "not rolling back as the job is stopped"
	case versions[0].Version != d.JobVersion:
		return nil, fmt.Sprintf("not rolling back as the job has a newer version %d", versions[0].Version)
	}
	for _, j := range versions[1:] {
		switch {
		case !j.Stable:
		case !SpecChanged(versions[0], j):
			return nil, fmt.Sprintf("not rolling back to job version %d as current job has same specification", j.Version)
		default:
			return j, fmt.Sprintf("rolling back to job version %d", j.Version)
		}
	}
	return nil, "no stable job version to auto revert to"
}

// Copy returns a deep copy.
func (d *Deployment) Copy() *Deployment {
	if d == nil {
		return nil
	}
	c := *d
	c.TaskGroups = make(map[string]*DeploymentState, len(d.TaskGroups))
	for k, v := range d.TaskGroups {
		s := *v
		s.PlacedCanaries = append([]string(nil), v.PlacedCanaries...)
		c.TaskGroups[k] = &s
	}
	return &c
}

// DeploymentStatusUpdate changes the status of a deployment.
type DeploymentStatusUpdate struct {
	DeploymentID      string
	Status            string
	StatusDescription string
	UpdatedAt         int64 // Unix ns
}
