// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Desired statuses of an alloc, written by servers.
const (
	AllocDesiredStatusRun   = "run"
	AllocDesiredStatusStop  = "stop"
	AllocDesiredStatusEvict = "evict"
)

// Client statuses of an alloc, written by its node (lost and unknown by servers).
const (
	AllocClientStatusPending  = "pending"
	AllocClientStatusRunning  = "running"
	AllocClientStatusComplete = "complete"
	AllocClientStatusFailed   = "failed"
	AllocClientStatusLost     = "lost"
	AllocClientStatusUnknown  = "unknown"
)

// Allocation is one instance of a group on one node. In state it refers to its job by
// JobVersion, and Job is nil; Job is filled in for readers that need it.
type Allocation struct {
	ID         string
	Namespace  string
	EvalID     string // the eval that made or last changed it
	Name       string // JOB.GROUP[INDEX]
	NodeID     string
	NodeName   string
	JobID      string
	Job        *Job   `json:",omitempty"` // the version that the alloc runs; shared, so never changed
	JobVersion uint64 `json:"-"`
	TaskGroup  string

	AllocatedResources *AllocatedResources
	Metrics            *AllocMetric // why it was placed where it is

	DesiredStatus      string
	DesiredDescription string            `json:",omitempty"`
	DesiredTransition  DesiredTransition `json:",omitzero"`

	ClientStatus      string
	ClientDescription string
	TaskStates        map[string]*TaskState
	AllocStates       []*AllocState `json:",omitempty"` // history of client status changes, which later decisions need

	// Invariant: as long as the state has both, an alloc and its successor name each
	// other, and FollowupEvalID is an evaluation of the alloc's own job.
	PreviousAllocation    string                 `json:",omitempty"`
	NextAllocation        string                 `json:",omitempty"`
	DeploymentID          string                 `json:",omitempty"`
	DeploymentStatus      *AllocDeploymentStatus `json:",omitempty"`
	RescheduleTracker     *RescheduleTracker     `json:",omitempty"`
	NetworkStatus         *AllocNetworkStatus    `json:",omitempty"`
	FollowupEvalID        string                 `json:",omitempty"`
	PreemptedAllocations  []string               `json:",omitempty"`
	PreemptedByAllocation string                 `json:",omitempty"`
	SigningKeyID          string                 `json:",omitempty"`

	CreateIndex      uint64
	ModifyIndex      uint64 // any change
	AllocModifyIndex uint64 // changes by servers, on which the node must act
	CreateTime       int64  // Unix ns
	ModifyTime       int64  // Unix ns

	// Deregistered are the registrations of services that an operator removed. They come
	// back when a task starts again or the alloc is updated.
	Deregistered []string `json:"-"`
}

// DesiredTransition is a request of an operator or a controller to the scheduler.
type DesiredTransition struct {
	Migrate                 *bool
	Reschedule              *bool
	ForceReschedule         *bool
	NoShutdownDelay         *bool
	MigrateDisablePlacement *bool
}

// ShouldMigrate reports whether the alloc should move to another node.
func (d DesiredTransition) ShouldMigrate() bool { return d.Migrate != nil && *d.Migrate }

// ShouldForceReschedule reports whether the alloc should be replaced now.
func (d DesiredTransition) ShouldForceReschedule() bool {
	return d.ForceReschedule != nil && *d.ForceReschedule
}

// ShouldReschedule reports whether the alloc is eligible to be replaced within a deployment.
func (d DesiredTransition) ShouldReschedule() bool { return d.Reschedule != nil && *d.Reschedule }

// AllocState is a change of one field of an alloc at a point in time.
type AllocState struct {
	Field string // "ClientStatus"
	Value string
	Time  time.Time
}

// AllocDeploymentStatus is an alloc's health within its deployment.
type AllocDeploymentStatus struct {
	Healthy     *bool // nil: not known yet
	Timestamp   time.Time
	Canary      bool
	ModifyIndex uint64
}

// IsHealthy reports whether the alloc is known to be healthy.
func (s *AllocDeploymentStatus) IsHealthy() bool { return s != nil && s.Healthy != nil && *s.Healthy }

// IsUnhealthy reports whether the alloc is known to be unhealthy.
func (s *AllocDeploymentStatus) IsUnhealthy() bool {
	return s != nil && s.Healthy != nil && !*s.Healthy
}

// IsCanary reports whether the alloc is a canary.
func (s *AllocDeploymentStatus) IsCanary() bool { return s != nil && s.Canary }

// RescheduleTracker is the history of replacements that led to an alloc.
type RescheduleTracker struct {
	Events         []*RescheduleEvent
	LastReschedule string `json:",omitempty"` // "ok", "pending", "failed"
}

// RescheduleEvent is one replacement.
type RescheduleEvent struct {
	RescheduleTime int64 // Unix ns
	PrevAllocID    string
	PrevNodeID     string
	Delay          time.Duration
}

// AllocNetworkStatus is the network of an alloc as its node reports it.
type AllocNetworkStatus struct {
	InterfaceName string
	Address       string
	AddressIPv6   string
	DNS           *DNSConfig
	// Drivers are the networks that drivers gave to tasks, by task.
	Drivers map[string]*DriverNetwork `json:"-"`
	// Failing are the services of which a check fails or has not passed yet, by
	// services.Key, in order.
	Failing []string `json:"-"`
}

// DriverNetwork is the network that a driver gave to a task by itself.
type DriverNetwork struct {
	IP      string
	PortMap map[string]int // by label: the port on which the task listens there
	// AutoAdvertise means that services use this address unless they specify another.
	AutoAdvertise bool
}

// Task states.
const (
	TaskStatePending = "pending"
	TaskStateRunning = "running"
	TaskStateDead    = "dead"
)

// TaskState is the state of one task of an alloc, reported by its node. It
// only moves forward: pending, running, dead (and back to running on restart).
type TaskState struct {
	State       string
	Failed      bool
	Restarts    uint64
	LastRestart *time.Time
	StartedAt   *time.Time
	FinishedAt  *time.Time
	Events      []*TaskEvent // the newest MaxTaskEvents, oldest first
	Paused      string       // one of the Paused constants, RunByOperator, or ""
	TaskHandle  []byte       `json:"-"`
	// LastEvent is the sequence number of the newest event that the node recorded; the
	// first is 1.
	LastEvent uint64 `json:"-"`
}

// Successful reports whether the task has ended well.
func (s *TaskState) Successful() bool { return s.State == TaskStateDead && !s.Failed }

// Types of task events.
const (
	TaskSetup                    = "Task Setup"
	TaskSetupFailure             = "Setup Failure"
	TaskDriverFailure            = "Driver Failure"
	TaskReceived                 = "Received"
	TaskFailedValidation         = "Failed Validation"
	TaskStarted                  = "Started"
	TaskTerminated               = "Terminated"
	TaskKilling                  = "Killing"
	TaskKilled                   = "Killed"
	TaskRestarting               = "Restarting"
	TaskNotRestarting            = "Not Restarting"
	TaskRestartSignal            = "Restart Signaled"
	TaskSignaling                = "Signaling"
	TaskDownloadingArtifacts     = "Downloading Artifacts"
	TaskArtifactDownloadFailed   = "Failed Artifact Download"
	TaskDiskExceeded             = "Disk Resources Exceeded"
	TaskSiblingFailed            = "Sibling Task Failed"
	TaskDriverMessage            = "Driver"
	TaskLeaderDead               = "Leader Task Dead"
	TaskMainDead                 = "Main Tasks Dead"
	TaskHookFailed               = "Task hook failed"
	TaskHookMessage              = "Task hook message"
	TaskRestoreFailed            = "Failed Restoring Task"
	TaskPluginUnhealthy          = "Plugin became unhealthy"
	TaskPluginHealthy            = "Plugin became healthy"
	TaskDeviceUnhealthy          = "Device became unhealthy"
	TaskDeviceHealthy            = "Device became healthy"
	TaskClientReconnected        = "Reconnected"
	TaskWaitingShuttingDownDelay = "Waiting for shutdown delay"
	TaskSkippingShutdownDelay    = "Skipping shutdown delay"
	TaskMaxRunDuration           = "Max Run Duration Exceeded"
	TaskResourcesUpdated         = "Resources Updated"
	TaskUpdateFailed             = "Resources Not Updated"
	TaskPaused                   = "Paused"
	TaskResumed                  = "Resumed"
	TaskPausing                  = "Pausing"
	TaskAwaitsDependency         = "Waiting for Dependency"
	TaskDependencyTimeout        = "Dependency Timeout"
	TaskResuming                 = "Resuming"
	TaskAllocUnhealthy           = "Alloc Unhealthy"
)

// TaskEvent is an event of a task. DisplayMessage and Details contain all information;
// the other fields repeat parts of it for older clients.
type TaskEvent struct {
	Type             string
	Time             int64 // Unix ns
	Message          string
	DisplayMessage   string
	Details          map[string]string
	FailsTask        bool
	RestartReason    string
	SetupError       string
	DriverError      string
	ExitCode         int
	Signal           int
	KillTimeout      time.Duration
	KillError        string
	KillReason       string
	StartDelay       int64
	DownloadError    string
	ValidationError  string
	DiskLimit        int64
	FailedSibling    string
	VaultError       string
	TaskSignalReason string
	TaskSignal       string
	DriverMessage    string
	GenericSource    string
}

// JobKey names the alloc's job.
func (a *Allocation) JobKey() JobKey { return JobKey{a.Namespace, a.JobID} }

// ServerTerminalStatus reports whether servers want the alloc to end.
func (a *Allocation) ServerTerminalStatus() bool {
	return a.DesiredStatus == AllocDesiredStatusStop || a.DesiredStatus == AllocDesiredStatusEvict
}

// ClientTerminalStatus reports whether the alloc has ended on its node.
func (a *Allocation) ClientTerminalStatus() bool {
	switch a.ClientStatus {
	case AllocClientStatusComplete, AllocClientStatusFailed, AllocClientStatusLost:
		return true
	}
	return false
}

// TerminalStatus reports whether the alloc has ended, or servers want it to end.
func (a *Allocation) TerminalStatus() bool {
	return a.ServerTerminalStatus() || a.ClientTerminalStatus()
}

// UnknownSince returns when the alloc last became unknown; zero if it never did.
func (a *Allocation) UnknownSince() time.Time { return a.last(AllocClientStatusUnknown) }

// FailedSince returns when servers heard that the alloc has failed, by their own clock; zero
// if that is not recorded.
func (a *Allocation) FailedSince() time.Time { return a.last(AllocClientStatusFailed) }

func (a *Allocation) last(status string) time.Time {
	for _, s := range slices.Backward(a.AllocStates) {
		if s.Field == "ClientStatus" && s.Value == status {
			return s.Time
		}
	}
	return time.Time{}
}

// Serves reports whether, according to its node, the alloc does its job: every
// long-running task of its group is running, or has ended successfully.
func (a *Allocation) Serves(tg *TaskGroup) bool {
	if a.ClientStatus != AllocClientStatusRunning {
		return false
	}
	for _, t := range tg.Tasks {
		if t.Lifecycle != nil && !t.Lifecycle.Sidecar {
			continue
		}
		if s := a.TaskStates[t.Name]; s != nil && s.State != TaskStateRunning && !s.Successful() {
			return false
		}
	}
	return true
}

// Index returns the number in the alloc's name, or -1.
func (a *Allocation) Index() int {
	l := strings.LastIndexByte(a.Name, '[')
	if l < 0 || !strings.HasSuffix(a.Name, "]") {
		return -1
	}
	n, err := strconv.Atoi(a.Name[l+1 : len(a.Name)-1])
	if err != nil {
		return -1
	}
	return n
}

// AllocName returns the name of the index-th alloc of a group.
func AllocName(jobID, group string, index int) string {
	return jobID + "." + group + "[" + strconv.Itoa(index) + "]"
}

// Copy returns a copy whose fields may be replaced without changing a. Task states are
// copied one level deep; job, resources and metrics are shared.
func (a *Allocation) Copy() *Allocation {
	c := *a
	if a.TaskStates != nil {
		c.TaskStates = make(map[string]*TaskState, len(a.TaskStates))
		for k, v := range a.TaskStates {
			s := *v
			c.TaskStates[k] = &s
		}
	}
	if a.DeploymentStatus != nil {
		d := *a.DeploymentStatus
		c.DeploymentStatus = &d
	}
	return &c
}
