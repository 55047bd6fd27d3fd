// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// Scheduler algorithms.
const (
	SchedulerAlgorithmBinpack = "binpack"
	SchedulerAlgorithmSpread  = "spread"
)

// SchedulerConfiguration is the cluster-wide configuration of the scheduler.
type SchedulerConfiguration struct {
	SchedulerAlgorithm            string
	PreemptionConfig              PreemptionConfig
	MemoryOversubscriptionEnabled bool
	RejectJobRegistration         bool
	PauseEvalBroker               bool
	NodeLimitForFeasibilityChecks int
	CreateIndex                   uint64
	ModifyIndex                   uint64
	QueueOrder                    string `json:",omitempty"` // see QueueFair
	QueueMaxDepth                 int    `json:",omitempty"` // see QueueConfiguration.MaxDepth
}

// PreemptionConfig says which schedulers may preempt allocs of lower priority.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}

// PreemptionDelta is how much lower the priority of a job must be at least, for another job to
// preempt its allocs.
const PreemptionDelta = 10

// DescPreempted begins the desired description of a preempted alloc; the id of the alloc
// that took its place follows.
const DescPreempted = "Preempted by alloc ID "

// Allows reports whether jobs of a type may preempt allocs.
func (c PreemptionConfig) Allows(jobType string) bool {
	switch jobType {
	case JobTypeSystem:
		return c.SystemSchedulerEnabled
	case JobTypeSysBatch:
		return c.SysBatchSchedulerEnabled
	case JobTypeBatch:
		return c.BatchSchedulerEnabled
	case JobTypeService:
		return c.ServiceSchedulerEnabled
	}
	return false
}

// MayPreempt reports whether allocs of j may take the place of allocs of victim. The
// priority of the newest version of each job counts, not of the version that the alloc
// runs. The allocs of a job that no longer exists (nil) are about to end anyway.
func (j *Job) MayPreempt(victim *Job) bool {
	return j != nil && victim != nil && victim.Priority+PreemptionDelta <= j.Priority
}
