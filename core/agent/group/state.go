// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package group is the phase of an alloc that belongs to its whole group as a pure state
// machine: steps are prepared in order before any task begins, and torn down in reverse
// order after all tasks have ended. Step takes a state and an event and returns the next
// state and the effects that the runner must carry out. It knows no step by name, reads
// no clock and writes nothing; core/agent/alloc does. It is apart from core/agent/task
// because both have states, events and effects of their own. Only core/agent and
// packages below it may import it.
package group

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// Phase is the phase of a group.
type Phase string

// The phases.
const (
	Pending    Phase = "pending"    // nothing was done
	Preparing  Phase = "preparing"  // a step is being prepared
	Backoff    Phase = "backoff"    // a step has failed; it is tried again at WakeAt
	Ready      Phase = "ready"      // every step is prepared: tasks may run
	Cancelling Phase = "cancelling" // stopped during a step; the end of the step is awaited
	TearDown   Phase = "teardown"   // a step is being torn down
	Lingering  Phase = "lingering"  // a teardown has failed; it is tried again at WakeAt
	Over       Phase = "over"       // nothing is left
)

// Status is the status of one step.
type Status string

// The statuses.
const (
	StepPending   Status = ""          // not begun
	StepPreparing Status = "preparing" // begun: it may be prepared in part
	StepPrepared  Status = "prepared"
	StepTornDown  Status = "torn down"
	StepAbandoned Status = "abandoned" // its teardown has failed for good; a step that insists is never abandoned
)

// StepSpec describes a step.
type StepSpec struct {
	Name  string
	Owner string // who carries the step out, for operators: the node, another alloc, a plugin
	// Limit ends a try of the step; 0 means that the owner ends it.
	Limit time.Duration
	// Leaves means that the step leaves something behind that has to be torn down.
	Leaves bool
	// Insists means that the group does not end before the step is torn down, because
	// others rely on that. The teardown is tried without end.
	Insists bool `json:",omitempty"`
}

// StepState is a step and how far it is.
type StepState struct {
	StepSpec
	Status    Status    `json:",omitempty"`
	Since     time.Time `json:",omitzero"` // begin of the current or last try
	Deadline  time.Time `json:",omitzero"` // deadline of the current try; zero means none
	LastError string    `json:",omitempty"`
}

// Holds reports whether something of the step may be there.
func (s StepState) Holds() bool {
	return s.Leaves && (s.Status == StepPreparing || s.Status == StepPrepared)
}

// State is everything that must be remembered of a group. It is plain data and is stored
// as JSON. Step never modifies what an earlier State refers to.
type State struct {
	Phase Phase
	Steps []StepState `json:",omitempty"` // in the order in which they are prepared

	// Try is the number of the current or last try of any step. Answers carry it, so
	// that late ones are ignored.
	Try    uint64    `json:",omitempty"`
	WakeAt time.Time `json:",omitzero"` // Backoff, Lingering: when to continue

	WindowStart time.Time `json:",omitzero"`  // begin of the restart policy's interval
	WindowCount int       `json:",omitempty"` // failures in that interval

	Failure    string `json:",omitempty"` // why the group can never be ready
	WasReady   bool   `json:",omitempty"`
	TearFailed int    `json:",omitempty"` // failed teardowns of the current step
}

// New returns the state of a group that a node has just received. A group without steps
// is ready when it begins.
func New(steps []StepSpec) State {
	s := State{Phase: Pending}
	for _, spec := range steps {
		s.Steps = append(s.Steps, StepState{StepSpec: spec})
	}
	return s
}

// Decided reports whether it is known that tasks may run, or that they never will.
func (s State) Decided() bool { return s.WasReady || s.Failure != "" }

// Current returns the step that is being prepared or torn down, or waits for another try;
// nil if there is none.
func (s State) Current() *StepState {
	i := -1
	switch s.Phase {
	case Preparing, Backoff, Cancelling:
		i = s.next()
	case TearDown, Lingering:
		i = s.last()
	}
	if i < 0 {
		return nil
	}
	return &s.Steps[i]
}

// next is the first step that is not prepared, or -1.
func (s State) next() int {
	for i, x := range s.Steps {
		if x.Status == StepPending || x.Status == StepPreparing {
			return i
		}
	}
	return -1
}

// last is the last step that leaves something to be torn down, or -1.
func (s State) last() int {
	for i := len(s.Steps) - 1; i >= 0; i-- {
		if s.Steps[i].Holds() {
			return i
		}
	}
	return -1
}

// Policy decides whether a failed step is tried again.
type Policy struct {
	Restart model.RestartPolicy
	// TearDownLimit ends a try of a teardown, and the wait for a step that was
	// cancelled.
	TearDownLimit time.Duration
}
