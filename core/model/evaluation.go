// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// Evaluation statuses.
const (
	EvalStatusBlocked   = "blocked" // waits for capacity
	EvalStatusPending   = "pending" // waits for a worker or for WaitUntil
	EvalStatusComplete  = "complete"
	EvalStatusFailed    = "failed"
	EvalStatusCancelled = "canceled"
)

// Triggers of an evaluation.
const (
	EvalTriggerJobRegister          = "job-register"
	EvalTriggerJobDeregister        = "job-deregister"
	EvalTriggerPeriodicJob          = "periodic-job"
	EvalTriggerNodeDrain            = "node-drain"
	EvalTriggerNodeUpdate           = "node-update"
	EvalTriggerAllocStop            = "alloc-stop"
	EvalTriggerDeploymentWatcher    = "deployment-watcher"
	EvalTriggerFailedFollowUp       = "failed-follow-up"
	EvalTriggerMaxPlans             = "max-plan-attempts"
	EvalTriggerRetryFailedAlloc     = "alloc-failure"
	EvalTriggerAllocReschedule      = "alloc-reschedule"
	EvalTriggerQueuedAllocs         = "queued-allocs"
	EvalTriggerPreemption           = "preemption"
	EvalTriggerScaling              = "job-scaling"
	EvalTriggerMaxDisconnectTimeout = "max-disconnect-timeout"
	EvalTriggerReconnect            = "reconnect"
)

// Evaluation is a request to the scheduler to process one job.
type Evaluation struct {
	ID              string
	Namespace       string
	Priority        int
	Type            string // the job's type
	TriggeredBy     string
	JobID           string
	JobModifyIndex  uint64 `json:",omitempty"` // the job's JobModifyIndex when the eval was created
	NodeID          string `json:",omitempty"` // the node that caused it
	NodeModifyIndex uint64 `json:",omitempty"`
	DeploymentID    string `json:",omitempty"`

	Status            string
	StatusDescription string        `json:",omitempty"`
	Wait              time.Duration `json:",omitempty"` // deprecated by WaitUntil, kept for clients
	WaitUntil         time.Time     `json:",omitzero"`  // pending until then

	// Invariant: as long as the state has both, an evaluation and the NextEval or
	// BlockedEval that continues it are of the same job, and that one names it as its
	// PreviousEval.
	NextEval     string            `json:",omitempty"`
	PreviousEval string            `json:",omitempty"`
	BlockedEval  string            `json:",omitempty"` // the eval that was created for what could not be placed
	RelatedEvals []*EvaluationStub `json:",omitempty"`

	FailedTGAllocs       map[string]*AllocMetric `json:",omitempty"` // per group: why it was not placed
	PlanAnnotations      *PlanAnnotations        `json:",omitempty"`
	ClassEligibility     map[string]bool         `json:",omitempty"` // computed class -> feasible; blocked evals
	EscapedComputedClass bool                    `json:",omitempty"` // constraints on unique attributes
	QuotaLimitReached    string                  `json:",omitempty"`
	AnnotatePlan         bool                    `json:",omitempty"` // dry run: fill PlanAnnotations
	QueuedAllocations    map[string]int          `json:",omitempty"` // per group: not placed yet
	SnapshotIndex        uint64                  `json:",omitempty"` // index of the state on which the scheduler worked

	CreateIndex uint64 `json:",omitempty"` // 0 if planned but not stored
	ModifyIndex uint64 `json:",omitempty"`
	CreateTime  int64  // Unix ns
	ModifyTime  int64  // Unix ns

	Held map[string]*Hold `json:",omitempty"` // per group: what it waits for
	// MissingNonNodeResources are volumes that do not exist and that a blocked eval needs, as
	// csi-volume:NAMESPACE:ID.
	MissingNonNodeResources []string `json:",omitempty"`
}

// Purged stands in for a job that no longer exists in evaluations of what it left.
func Purged(key JobKey) *Job {
	return &Job{Namespace: key.Namespace, ID: key.ID, Priority: JobDefaultPriority, Type: JobTypeService}
}

// NewEvaluation returns a pending evaluation of a job.
func NewEvaluation(id, trigger string, job *Job, now time.Time) *Evaluation {
	return &Evaluation{
		ID: id, TriggeredBy: trigger, Namespace: job.Namespace, JobID: job.ID, Priority: job.Priority, Type: job.Type,
		Status: EvalStatusPending, CreateTime: now.UnixNano(), ModifyTime: now.UnixNano(),
	}
}

// Next returns a pending evaluation of the same job that continues the work of e.
func (e *Evaluation) Next(id, trigger string, now time.Time) *Evaluation {
	next := NewEvaluation(id, trigger, &Job{Namespace: e.Namespace, ID: e.JobID, Priority: e.Priority, Type: e.Type}, now)
	next.JobModifyIndex, next.PreviousEval = e.JobModifyIndex, e.ID
	return next
}

// EvaluationStub is the short form of an evaluation in lists of related ones.
type EvaluationStub struct {
	ID                string
	Namespace         string
	Priority          int
	Type              string
	TriggeredBy       string
	JobID             string
	NodeID            string
	DeploymentID      string
	Status            string
	StatusDescription string
	WaitUntil         time.Time
	NextEval          string
	PreviousEval      string
	BlockedEval       string
	CreateIndex       uint64
	ModifyIndex       uint64
	CreateTime        int64
	ModifyTime        int64
}

// TerminalStatus reports whether the eval will not change any more.
func (e *Evaluation) TerminalStatus() bool {
	switch e.Status {
	case EvalStatusComplete, EvalStatusFailed, EvalStatusCancelled:
		return true
	}
	return false
}

// ShouldEnqueue reports whether the eval waits for a worker.
func (e *Evaluation) ShouldEnqueue() bool { return e.Status == EvalStatusPending }

// ShouldBlock reports whether the eval waits for capacity.
func (e *Evaluation) ShouldBlock() bool { return e.Status == EvalStatusBlocked }

// Copy returns an eval that may be changed without changing e; nested maps are shared.
func (e *Evaluation) Copy() *Evaluation {
	c := *e
	return &c
}
