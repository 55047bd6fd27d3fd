// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// Event is something that happened to a task or that somebody wants of it.
// Events about one start carry its Run; those of an earlier run are ignored.
type Event interface{ isEvent() }

// Begin says that the task's turn has come.
type Begin struct{}

// Started says that the driver has started the task.
type Started struct{ Run uint64 }

// StartFailed says that a start came to nothing. Retry is false where it can
// never succeed.
type StartFailed struct {
	Run    uint64
	Err    string
	Retry  bool
	Cause  Cause
	Jitter float64 // 0..1, for the delay of a restart
}

// Cause is what a start failed in.
type Cause int

// The causes.
const (
	InDriver   Cause = iota // the driver was asked and refused
	InSetup                 // something before it
	InArtifact              // fetching an artifact
	InHook                  // a hook around the task, e.g. a template's script
)

// Exited says that the task has ended. Err says what is not in the numbers.
type Exited struct {
	Run       uint64
	ExitCode  int
	Signal    int
	OOMKilled bool
	Err       string
	Jitter    float64 // 0..1, for the delay of a restart
}

// Kill wants the task dead. Reason is noted as an event if its Type is set, and
// if it FailsTask the task has failed when it is dead.
type Kill struct {
	Reason  model.TaskEvent
	NoDelay bool // skip the shutdown delay
}

// Restart wants the task to end and to start again at once; it does not count
// against the restart policy. Revive also starts a task that is dead.
type Restart struct {
	Reason string
	Revive bool
}

// Rerun wants the task to end, if it runs, and to wait for its turn in the group
// once more, even if it is dead. It does not count against the restart policy.
type Rerun struct{ Reason string }

// Wake says that WakeAt may have come.
type Wake struct{}

// Note adds an event that changes nothing else.
type Note struct{ Event model.TaskEvent }

func (Begin) isEvent()       {}
func (Started) isEvent()     {}
func (StartFailed) isEvent() {}
func (Exited) isEvent()      {}
func (Kill) isEvent()        {}
func (Restart) isEvent()     {}
func (Rerun) isEvent()       {}
func (Wake) isEvent()        {}
func (Note) isEvent()        {}

// Effect is something that the runner must do after a step.
type Effect interface{ isEffect() }

// Start starts the task and answers with Started or StartFailed.
type Start struct {
	Run uint64
	// Again: an agent before this one has begun it, and it may have happened.
	Again bool
}

// Stop ends the task with a signal and, after the timeout, by force; the end
// comes back as Exited.
type Stop struct {
	Run     uint64
	Signal  string
	Timeout time.Duration
}

// Destroy frees what an ended run holds.
type Destroy struct{ Run uint64 }

// WakeUp asks for a Wake at a time.
type WakeUp struct{ At time.Time }

func (Start) isEffect()   {}
func (Stop) isEffect()    {}
func (Destroy) isEffect() {}
func (WakeUp) isEffect()  {}
