// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// SchedulerDefaults is the initial scheduler configuration of a new cluster. It has no
// effect once the configuration was set over the API.
type SchedulerDefaults struct {
	Algorithm              string     `json:"scheduler_algorithm,omitempty"`
	Preemption             Preemption `json:"preemption_config,omitzero"`
	MemoryOversubscription bool       `json:"memory_oversubscription_enabled,omitempty"`
	RejectJobRegistration  bool       `json:"reject_job_registration,omitempty"`
	PauseEvalBroker        bool       `json:"pause_eval_broker,omitempty"`
	NodeLimit              int        `json:"node_limit_for_feasibility_checks,omitempty"`
}

// Preemption says which schedulers may preempt allocs of lower priority.
type Preemption struct {
	System   *bool `json:"system_scheduler_enabled,omitempty"` // true by default
	SysBatch bool  `json:"sysbatch_scheduler_enabled,omitempty"`
	Batch    bool  `json:"batch_scheduler_enabled,omitempty"`
	Service  bool  `json:"service_scheduler_enabled,omitempty"`
}

// Scheduler returns the initial scheduler configuration of a new cluster, nil for the
// built-in one.
func (s *Server) Scheduler() *model.SchedulerConfiguration {
	d := s.SchedulerDefaults
	if d == nil {
		return nil
	}
	algorithm := d.Algorithm
	if algorithm == "" {
		algorithm = model.SchedulerAlgorithmBinpack
	}
	return &model.SchedulerConfiguration{
		SchedulerAlgorithm: algorithm, MemoryOversubscriptionEnabled: d.MemoryOversubscription,
		RejectJobRegistration: d.RejectJobRegistration, PauseEvalBroker: d.PauseEvalBroker, NodeLimitForFeasibilityChecks: d.NodeLimit,
		PreemptionConfig: model.PreemptionConfig{
			SystemSchedulerEnabled: d.Preemption.System == nil || *d.Preemption.System, SysBatchSchedulerEnabled: d.Preemption.SysBatch,
			BatchSchedulerEnabled: d.Preemption.Batch, ServiceSchedulerEnabled: d.Preemption.Service,
		},
	}
}

// clusterProblems lists the invalid values of the cluster's settings.
func (s *Server) clusterProblems() (out []string) {
	if d := s.SchedulerDefaults; d != nil {
		switch d.Algorithm {
		case "", model.SchedulerAlgorithmBinpack, model.SchedulerAlgorithmSpread:
		default:
			out = append(out, fmt.Sprintf("server.default_scheduler_config: scheduler_algorithm %q is neither %q nor %q", d.Algorithm, model.SchedulerAlgorithmBinpack, model.SchedulerAlgorithmSpread))
		}
		if d.NodeLimit < 0 {
			out = append(out, "server.default_scheduler_config: node_limit_for_feasibility_checks is negative")
		}
	}
	if n := s.RaftMultiplier; n != nil && (*n < 1 || *n > maxRaftMultiplier) {
		out = append(out, fmt.Sprintf("server.raft_multiplier %d is not between 1 and %d", *n, maxRaftMultiplier))
	}
	if lacking := s.lackedSchedulers(); len(lacking) > 0 {
		out = append(out, fmt.Sprintf("server.enabled_schedulers lacks %s: every worker of the leader schedules every type of job, and jobs of a type that none schedules would wait forever; remove the key", strings.Join(lacking, ", ")))
	}
	if s.Search.LimitResults < 0 || s.Search.MinTermLength < 0 {
		out = append(out, "server.search: limit_results and min_term_length must not be negative")
	}
	for key, text := range map[string]string{
		"root_key_rotation_threshold": s.RootKeyRotation, "root_key_gc_threshold": s.RootKeyGC, "root_key_gc_interval": s.RootKeyInterval,
	} {
		if d, err := ParseDuration(text); err == nil && text != "" && 0 <= d && d < time.Second {
			out = append(out, fmt.Sprintf("server.%s: %q is less than 1s", key, text))
		}
	}
	if s.MaxHeartbeats < 0 {
		out = append(out, "server.max_heartbeats_per_second is negative")
	}
	if n := s.EventBufferSize; n != nil && *n < 1 {
		out = append(out, "server.event_buffer_size must be at least 1")
	}
	return out
}

// maxRaftMultiplier is the largest of server.raft_multiplier.
const maxRaftMultiplier = 10

// lackedSchedulers returns the types of jobs that enabled_schedulers leaves out.
func (s *Server) lackedSchedulers() (out []string) {
	for _, kind := range []string{model.JobTypeService, model.JobTypeBatch, model.JobTypeSystem, model.JobTypeSysBatch} {
		if len(s.EnabledSchedulers) > 0 && !slices.Contains(s.EnabledSchedulers, kind) {
			out = append(out, kind)
		}
	}
	return out
}

// Multiplier returns the factor of the timeouts of elections.
func (s *Server) Multiplier() int {
	if s.RaftMultiplier == nil {
		return 1
	}
	return *s.RaftMultiplier
}
