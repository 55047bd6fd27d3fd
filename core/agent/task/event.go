// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// Event is something that happened to a task, or a request concerning it. Events of a
// start carry its Run; events of an earlier run are ignored.
type Event interface{ isEvent() }

// Begin starts the task: its turn in the group has come.
type Begin struct{}

// Started says that the driver has started the task.
type Started struct{ Run uint64 }

// StartFailed means that a start failed. Retry is false if it can never succeed.
type StartFailed struct {
	Run    uint64
	Err    string
	Retry  bool
	Cause  Cause
	Jitter float64 // 0..1, for the delay of a restart
	// Reason, Details and RetryAfter are what errdefs.ReasonOf, DetailsOf and RetryAfter
	// say about the error; empty if it says nothing.
	Reason     string
	Details    map[string]string
	RetryAfter time.Duration
}

// Cause is the part of a start that failed.
type Cause int

// The causes.
const (
	InDriver     Cause = iota // the driver was asked and refused
	InSetup                   // something before it
	InArtifact                // fetching an artifact
	InValidation              // the driver's check of the config
	InHook                    // a hook around the task, e.g. a template's script
)

// Exited means that the task has ended. Err describes what the numbers cannot.
type Exited struct {
	Run       uint64
	ExitCode  int
	Signal    int
	OOMKilled bool
	Err       string
	Jitter    float64 // 0..1, for the delay of a restart
}

// Kill requests the end of the task. Reason is recorded as an event if its Type is
// set; if it FailsTask, the task counts as failed.
type Kill struct {
	Reason  model.TaskEvent
	NoDelay bool // skip the shutdown delay
}

// Restart requests that the task ends and starts again at once, without counting
// against the restart policy. Revive also starts a dead task.
type Restart struct {
	Reason string
	Revive bool
}

// Rerun requests that the task ends, if it runs, and waits for its turn in the group
// again, even if it is dead. It does not count against the restart policy.
type Rerun struct{ Reason string }

// Unhealthy means that check_restart asks for a restart of a run. The restart counts
// against the restart policy, as one after a failure does.
type Unhealthy struct {
	Run    uint64
	Reason string
}

// Resize means that Spec.Limits may have changed.
type Resize struct{}

// Updated means that the driver has given the run these resources.
type Updated struct {
	Run    uint64
	Limits Limits
}

// UpdateFailed means that the driver could not give the run these resources.
type UpdateFailed struct {
	Run    uint64
	Limits Limits
	Err    string
}

// Held is the driver's report that a run is paused, or that it is not.
type Held struct {
	Run    uint64
	Paused bool
}

// Hold means that the turn of the task has come, but a task on which it depends is not ready.
type Hold struct{ On string }

// Look means that the window of the task may have opened or closed. See Due.
type Look struct{}

// Direct is an operator's word about the schedule: one of the ScheduleState constants.
type Direct struct{ State string }

// Wake means that WakeAt may have passed.
type Wake struct{}

// Note adds a task event without any other change.
type Note struct{ Event model.TaskEvent }

func (Begin) isEvent()        {}
func (Started) isEvent()      {}
func (StartFailed) isEvent()  {}
func (Exited) isEvent()       {}
func (Kill) isEvent()         {}
func (Restart) isEvent()      {}
func (Rerun) isEvent()        {}
func (Unhealthy) isEvent()    {}
func (Resize) isEvent()       {}
func (Updated) isEvent()      {}
func (UpdateFailed) isEvent() {}
func (Held) isEvent()         {}
func (Hold) isEvent()         {}
func (Look) isEvent()         {}
func (Direct) isEvent()       {}
func (Wake) isEvent()         {}
func (Note) isEvent()         {}

// Effect is something that the runner must do after a transition.
type Effect interface{ isEffect() }

// Start starts the task. The runner answers with Started or StartFailed.
type Start struct {
	Run uint64
	// Again means that an earlier agent process began this start and may have
	// completed it.
	Again bool
}

// Stop ends the task with a signal and, after the timeout, kills it. The runner
// answers with Exited.
type Stop struct {
	Run     uint64
	Signal  string
	Timeout time.Duration
}

// Destroy frees the resources of an ended run.
type Destroy struct{ Run uint64 }

// Update gives a running task the resources of the newest Spec. The runner answers with
// Updated or UpdateFailed, unless the run ends first.
type Update struct{ Run uint64 }

// WakeUp requests a Wake at a time.
type WakeUp struct{ At time.Time }

// GiveUp cancels a start. The runner answers with StartFailed, or with Started if it was too
// late.
type GiveUp struct{ Run uint64 }

func (Start) isEffect()   {}
func (GiveUp) isEffect()  {}
func (Stop) isEffect()    {}
func (Destroy) isEffect() {}
func (Update) isEffect()  {}
func (WakeUp) isEffect()  {}
