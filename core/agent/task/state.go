// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package task is the life of one task as a pure state machine: Step takes a state and
// an event and returns the next state and the effects that the runner must carry out.
// It owns the restart policy, the sequence of a kill (shutdown delay, signal, kill)
// and the texts of task events. It does not run tasks, read a clock or write to disk;
// core/agent/alloc does. Only core/agent and packages below it may import it.
package task

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// Phase is the phase of a task. It is more detailed than the reported state.
type Phase string

// The phases.
const (
	Waiting  Phase = "waiting"  // its turn in the group has not come
	Starting Phase = "starting" // a start is in progress
	Running  Phase = "running"
	Backoff  Phase = "backoff"  // ended; starts again at WakeAt
	Delaying Phase = "delaying" // waits for its shutdown delay; stopped at WakeAt
	Stopping Phase = "stopping" // asked to end
	Off      Phase = "off"      // its turn has come, but it is paused
	Dead     Phase = "dead"
)

// Spec is the part of a job that controls the life of a task.
type Spec struct {
	Restart       model.RestartPolicy
	KillSignal    string
	KillTimeout   time.Duration
	ShutdownDelay time.Duration
	// EndsWell means that a successful exit ends the task for good. It is false for
	// service tasks and sidecars.
	EndsWell bool
	// Limits are the resources that the task is to have.
	Limits Limits
	// Window is when the task runs; nil means always.
	Window Window
}

// Window is a time at which a task runs. *cron.Window implements it.
type Window interface {
	Open(at time.Time) bool
	Next(after time.Time) time.Time // when it may open or close; zero means never
}

// Limits are the resources of a task that may change while it runs.
type Limits struct {
	CPUMHz      int64
	MemoryMB    int64
	MemoryMaxMB int64 // 0 means MemoryMB
	// Cores lists the cores that a task without cores of its own may use, because no other
	// task has reserved them; "" means all.
	Cores string `json:",omitempty"`
}

// SameAssigned reports whether two Limits differ in nothing but Cores, which are no part of
// what the servers have assigned.
func (l Limits) SameAssigned(other Limits) bool {
	l.Cores = other.Cores
	return l == other
}

// State is everything that must be remembered of a task. It is plain data and is
// stored as JSON. Step never modifies what an earlier State refers to.
type State struct {
	Phase Phase
	Run   uint64 // number of the current or last start; 0 before the first

	// FirstStart is when the task first started since its turn came; a restart of the
	// whole alloc by an operator resets it.
	FirstStart time.Time `json:",omitzero"`

	WakeAt time.Time // Backoff, Delaying: when to continue

	WindowStart time.Time // begin of the restart policy's interval
	WindowCount int       // restarts in that interval

	KillWanted    bool // the task must end and not start again
	FailWanted    bool // the task counts as failed once it is dead
	RestartWanted bool // a restart was requested: start again at once after the end
	RerunWanted   bool // wait for its turn again after the end
	Fresh         bool // it has not started since the last Rerun
	// Unfit means that the run is being stopped because its checks have failed.
	Unfit bool `json:",omitempty"`

	// Has are the resources of the current run, as far as is known: it was started with them
	// or with newer ones, or was given them since. Agents of the first release did not store
	// them, and never changed them. Updating means that the driver is asked for a change, and
	// UpdatedAt is the end of the last one.
	Has       Limits    `json:",omitzero"`
	Updating  bool      `json:",omitempty"`
	UpdatedAt time.Time `json:",omitzero"`

	// Paused means that the driver's last report says that the current run is paused.
	// ResumedAt is the time of the report that it continues.
	Paused    bool      `json:",omitempty"`
	ResumedAt time.Time `json:",omitzero"`

	// HeldSince is when the turn of the waiting task came, while a dependency holds it back.
	HeldSince time.Time `json:",omitzero"`

	// Order is what an operator has said about the schedule, one of the ScheduleState
	// constants of package model; "" means scheduled. Pausing means that the run is being
	// stopped, or its start given up, because the task is paused. OffSince is when it became
	// Off.
	Order    string    `json:",omitempty"`
	Pausing  bool      `json:",omitempty"`
	OffSince time.Time `json:",omitzero"`

	// Counters since the node received the task.
	Starts   uint64 `json:",omitempty"` // successful starts
	OOMKills uint64 `json:",omitempty"`

	Report model.TaskState // the state that is reported to servers, see Reported
	Noted  uint64          // number of events since the node received the task
}

// Reported returns the state of the task that is reported to servers.
func (s State) Reported() *model.TaskState {
	out := s.Report
	out.LastEvent = s.Noted
	return &out
}

// Alive reports whether a process of the task exists or may exist.
func (s State) Alive() bool {
	switch s.Phase {
	case Starting, Running, Delaying, Stopping:
		return true
	}
	return false
}

// HasStarted reports whether the task has started since its turn came.
func (s State) HasStarted() bool { return s.Report.StartedAt != nil && !s.Fresh }

// New returns the state of a task that a node has just received.
func New(now time.Time) State {
	s := State{Phase: Waiting, Report: model.TaskState{State: model.TaskStatePending}}
	s.note(now, model.EventReceived())
	return s
}
