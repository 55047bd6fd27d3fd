// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"time"

	"github.com/drover-project/drover/core/model"
)

// QueryMeta is the part of some answers that repeats the values of headers.
type QueryMeta struct {
	Index       uint64
	KnownLeader bool
	LastContact int64
	NextToken   string
}

// IndexResponse is the answer to a write without further results.
type IndexResponse struct {
	Index uint64
}

// EvalResponse is the answer to a write that created an evaluation.
type EvalResponse struct {
	EvalCreateIndex uint64
	EvalID          string
	Index           uint64
}

// JobParseRequest converts a job file to a draft. Canonicalize fills in defaults.
type JobParseRequest struct {
	JobHCL       string
	HCLv1        bool   `json:"hclv1,omitempty"`
	Variables    string `json:",omitempty"`
	Canonicalize bool
	Namespace    string `json:"-"`
}

// JobValidateRequest validates a job. Job is the draft as JSON: unset fields are null
// or absent (core/jobspec reads it).
type JobValidateRequest struct {
	Job       json.RawMessage
	Namespace string `json:"-"`
}

// The severities of a JobFinding.
const (
	FindingError   = "error"   // the job is refused
	FindingWarning = "warning" // the user is told
)

// JobFinding is what a driver finds in a task of a job, or in its group if Task is empty.
// Path is the place in the words of a job file, such as config.mount[1].source. Message is
// the text that is also among the errors or the warnings of the answer. Findings are an
// addition of Drover to the reference's answers, for clients that have the job file and can
// show the line: an answer has them if the request has findings=true.
type JobFinding struct {
	TaskGroup string
	Task      string `json:",omitempty"`
	Driver    string
	Path      string
	Severity  string
	Message   string
}

// JobValidateResponse lists the errors of a job.
type JobValidateResponse struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
	Findings              []*JobFinding `json:",omitempty"`
}

// JobPlanRequest asks what registering a job would change.
type JobPlanRequest struct {
	Job            json.RawMessage
	Diff           bool
	PolicyOverride bool
	Why            bool    // explains where each group could run; an addition of Drover
	Say            bool    // wants sentences about groups that find no place; an addition of Drover
	WhatIf         *WhatIf // plans as if the cluster were different; an addition of Drover
	JobID          string  `json:"-"` // from the path
	Namespace      string  `json:"-"`
}

// WhatIf is how the cluster and the job would be different.
type WhatIf struct {
	NodesDown     []string       // ids of nodes that vanish
	NodesDraining []string       // ids of nodes from which everything moves
	Counts        map[string]int // by group
}

// PlannedAlloc is an alloc that a plan would make.
type PlannedAlloc struct {
	Name      string
	TaskGroup string
	NodeID    string
	NodeName  string
	Canary    bool
	Replaces  string `json:",omitempty"` // the id of an alloc
}

// JobPlanResponse says what registering a job would change.
type JobPlanResponse struct {
	Annotations        *model.PlanAnnotations
	FailedTGAllocs     map[string]*model.AllocMetric
	Held               map[string]*model.Hold `json:",omitempty"` // groups that would wait for dependencies
	JobModifyIndex     uint64
	CreatedEvals       []*model.Evaluation
	Diff               *model.JobDiff // nil if not requested
	NextPeriodicLaunch *time.Time
	Warnings           string
	Findings           []*JobFinding `json:",omitempty"`
	Index              uint64

	// Says has sentences about the groups of which allocs find no place, as the explanation of
	// the job has them: who refuses, and what would help.
	Says []string `json:",omitempty"`
	// Groups and Placed are there if the request has Why or WhatIf.
	Groups []*model.GroupExplanation `json:",omitempty"`
	Placed []*PlannedAlloc           `json:",omitempty"`
}

// JobRegisterRequest registers a job. JobModifyIndex is checked if EnforceIndex is
// set.
type JobRegisterRequest struct {
	Job            json.RawMessage
	EnforceIndex   bool
	JobModifyIndex uint64
	PolicyOverride bool
	PreserveCounts bool
	// PreserveResources keeps the resources of tasks that are already registered.
	PreserveResources bool
	EvalPriority      int
	Submission        *model.JobSubmission
	JobID             string `json:"-"` // from the path, "" for /v1/jobs
	Namespace         string `json:"-"` // from the parameters, "" if not given
}

// JobRegisterResponse is the answer to register, evaluate, revert and scale.
type JobRegisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	Warnings        string
	Findings        []*JobFinding `json:",omitempty"`
	QueryMeta
}

// JobDeregisterRequest stops a job; Purge also removes it from state.
type JobDeregisterRequest struct {
	JobID           string
	Namespace       string
	Purge           bool
	Global          bool
	EvalPriority    int
	NoShutdownDelay bool
}

// JobDeregisterResponse is the answer to JobDeregisterRequest. Stopping a missing job
// is not an error; all fields are then zero.
type JobDeregisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	VolumeEvalID    string
	VolumeEvalIndex uint64
	QueryMeta
}

// JobEvaluateRequest creates an evaluation of a job.
type JobEvaluateRequest struct {
	JobID       string
	Namespace   string `json:"-"`
	EvalOptions struct{ ForceReschedule bool }
}

// JobRevertRequest reverts a job to an earlier version.
type JobRevertRequest struct {
	JobID               string
	Namespace           string `json:"-"`
	JobVersion          uint64
	EnforcePriorVersion *uint64
	TaggedVersion       string
}

// JobStabilityRequest marks a version as stable or not.
type JobStabilityRequest struct {
	JobID      string
	Namespace  string `json:"-"`
	JobVersion uint64
	Stable     bool
}

// JobScaleRequest sets the count of a group, or records a message about it.
type JobScaleRequest struct {
	JobID          string `json:"-"`
	Namespace      string `json:"-"`
	Count          *int64
	Target         map[string]string
	Message        string
	Error          bool
	Meta           map[string]any
	PolicyOverride bool
	EnforceIndex   bool
	JobModifyIndex uint64
}

// JobDispatchRequest starts a child of a parameterized job.
type JobDispatchRequest struct {
	JobID            string
	Namespace        string `json:"-"`
	Payload          []byte
	Meta             map[string]string
	IdPrefixTemplate string
	IdempotencyToken string `json:"-"`
	Priority         int
}

// JobDispatchResponse names the child.
type JobDispatchResponse struct {
	DispatchedJobID string
	EvalID          string
	EvalCreateIndex uint64
	JobCreateIndex  uint64
	Index           uint64
}

// JobTagRequest adds a tag to a version, or removes it (Delete).
type JobTagRequest struct {
	JobID       string `json:"-"`
	Namespace   string `json:"-"`
	Name        string `json:"-"`
	Version     *uint64
	Description string
	Delete      bool `json:"-"`
}

// JobListStub is the short form of a job in lists.
type JobListStub struct {
	ID                string
	ParentID          string
	Name              string
	Namespace         string
	Datacenters       []string
	NodePool          string
	Multiregion       *model.Multiregion
	Type              string
	Priority          int
	Periodic          bool
	ParameterizedJob  bool
	Stop              bool
	Status            string
	StatusDescription string
	JobSummary        *model.JobSummary
	CreateIndex       uint64
	ModifyIndex       uint64
	JobModifyIndex    uint64
	SubmitTime        int64
	Meta              map[string]string `json:",omitempty"`
}

// JobVersionsResponse is the history of a job, newest first.
type JobVersionsResponse struct {
	Versions []*model.Job
	Diffs    []any
	QueryMeta
}

// JobScaleStatus is the information about a job for autoscalers.
type JobScaleStatus struct {
	JobID          string
	Namespace      string
	JobCreateIndex uint64
	JobModifyIndex uint64
	JobStopped     bool
	TaskGroups     map[string]*GroupScaleStatus
}

// GroupScaleStatus is the information about a group for autoscalers.
type GroupScaleStatus struct {
	Desired   int
	Placed    int
	Running   int
	Healthy   int
	Unhealthy int
	Events    []*model.ScalingEvent // newest first; null if there are none
}

// JobAction is a named command of a task of a job.
type JobAction struct {
	Name          string
	Command       string
	Args          []string
	TaskName      string
	TaskGroupName string
}

// JobPayload is the payload of a dispatched job.
type JobPayload struct{ Payload []byte }
