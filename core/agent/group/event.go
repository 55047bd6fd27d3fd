// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package group

import "time"

// Event is something that happened to a group. Answers carry the Try that they answer;
// events of an earlier one are ignored.
type Event interface{ kind() kind }

// kind is the name of an event; the table of transitions has rows by this name.
type kind string

// Begin begins to prepare the group.
type Begin struct{}

// Prepared says that the current step is prepared.
type Prepared struct{ Try uint64 }

// Failed says that the current step could not be prepared. Retry is false if it never
// can be.
type Failed struct {
	Try    uint64
	Err    string
	Retry  bool
	Jitter float64 // 0..1, for the delay before the next try
}

// Stop says that no task needs the group any more, and none will.
type Stop struct{}

// TornDown says that the current step is torn down.
type TornDown struct{ Try uint64 }

// TearDownFailed says that the current step could not be torn down.
type TearDownFailed struct {
	Try uint64
	Err string
}

// Wake means that a requested time may have passed.
type Wake struct{ Jitter float64 }

func (Begin) kind() kind          { return "Begin" }
func (Prepared) kind() kind       { return "Prepared" }
func (Failed) kind() kind         { return "Failed" }
func (Stop) kind() kind           { return "Stop" }
func (TornDown) kind() kind       { return "TornDown" }
func (TearDownFailed) kind() kind { return "TearDownFailed" }
func (Wake) kind() kind           { return "Wake" }

// Effect is something that the runner must do after a transition.
type Effect interface{ isEffect() }

// Prepare prepares a step. The runner answers with Prepared or Failed.
type Prepare struct {
	Step string
	Try  uint64
	// Again means that an earlier agent process began the step and may have completed
	// it.
	Again bool
}

// Cancel ends the preparation of a step early. Its answer is still awaited.
type Cancel struct{ Try uint64 }

// Undo tears a step down, which may be prepared in part. The runner answers with
// TornDown or TearDownFailed.
type Undo struct {
	Step string
	Try  uint64
}

// WakeUp requests a Wake at a time.
type WakeUp struct{ At time.Time }

func (Prepare) isEffect() {}
func (Cancel) isEffect()  {}
func (Undo) isEffect()    {}
func (WakeUp) isEffect()  {}
