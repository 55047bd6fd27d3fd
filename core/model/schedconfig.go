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
}

// PreemptionConfig says which schedulers may preempt allocs of lower priority.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}

// MemoryOversubscription reports whether memory_max is used for jobs of a node pool.
// The pool's setting takes precedence over the configuration's. Both may be nil.
func (c *SchedulerConfiguration) MemoryOversubscription(pool *NodePool) bool {
	if pool != nil && pool.SchedulerConfiguration != nil && pool.SchedulerConfiguration.MemoryOversubscriptionEnabled != nil {
		return *pool.SchedulerConfiguration.MemoryOversubscriptionEnabled
	}
	return c != nil && c.MemoryOversubscriptionEnabled
}
