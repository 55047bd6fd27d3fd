// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package task is the life of one task as a pure state machine: Step takes a
// state and an event and returns the next state and the effects that a runner
// must carry out. It owns the restart policy, the order of a kill (shutdown
// delay, signal, force) and the words of task events. It does not run anything,
// read a clock or write to disk; core/agent/alloc does. Only core/agent and
// packages below it may import it.
package task

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// Phase is where a task is. It is finer than the state that is reported.
type Phase string

// The phases.
const (
	Waiting  Phase = "waiting"  // its turn in the group has not come
	Starting Phase = "starting" // a start is under way
	Running  Phase = "running"
	Backoff  Phase = "backoff"  // ended; starts again at WakeAt
	Delaying Phase = "delaying" // to be stopped at WakeAt, after its shutdown delay
	Stopping Phase = "stopping" // told to end
	Dead     Phase = "dead"
)

// Spec is what a job says about the life of a task.
type Spec struct {
	Name          string
	Restart       model.RestartPolicy
	KillSignal    string
	KillTimeout   time.Duration
	ShutdownDelay time.Duration
	// EndsWell: an exit with success ends the task for good. False for what
	// shall always run (service tasks and sidecars).
	EndsWell bool
}

// State is everything that has to be remembered of a task. It is plain data
// and is stored as JSON. Step never changes what an earlier State refers to.
type State struct {
	Phase Phase
	Run   uint64 // number of the current or last start; 0: never started

	// FirstStart is when the task first started since its turn came; an operator's
	// restart of a whole alloc begins anew.
	FirstStart time.Time `json:",omitzero"`

	WakeAt time.Time // Backoff, Delaying: when to go on

	WindowStart time.Time // begin of the restart policy's interval
	WindowCount int       // restarts asked for in it

	KillWanted    bool // the task shall end and not start again
	FailWanted    bool // the task counts as failed when it is dead
	RestartWanted bool // a restart was asked for: start again at once when it has ended
	RerunWanted   bool // wait for its turn again when it has ended
	Fresh         bool // it has not started since it was last told to run again

	// What has happened since the node received the task, for who counts.
	Starts   uint64 `json:",omitempty"` // that came to something
	OOMKills uint64 `json:",omitempty"`

	Report model.TaskState // what servers are told, see Reported
	Noted  uint64          // events since the node received the task
}

// Reported returns what servers are told of the task.
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
