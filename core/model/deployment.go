// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// Deployment statuses.
const (
	DeploymentStatusRunning      = "running"
	DeploymentStatusPaused       = "paused"
	DeploymentStatusFailed       = "failed"
	DeploymentStatusSuccessful   = "successful"
	DeploymentStatusCancelled    = "cancelled"
	DeploymentStatusInitializing = "initializing"
	DeploymentStatusPending      = "pending"
	DeploymentStatusBlocked      = "blocked"
	DeploymentStatusUnblocking   = "unblocking"
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
	if d == nil || d.Status != DeploymentStatusRunning {
		return false
	}
	for _, g := range d.TaskGroups {
		if g.DesiredCanaries > 0 && !g.Promoted {
			return true
		}
	}
	return false
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

// RevertTarget returns the version to which a failed deployment reverts its job: the
// newest stable one before the deployment's. It returns nil if there is none. versions
// are those of the job, newest first.
func (d *Deployment) RevertTarget(versions []*Job) *Job {
	for _, j := range versions {
		if j.Stable && j.Version < d.JobVersion {
			return j
		}
	}
	return nil
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
