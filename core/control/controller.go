// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package control

import (
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/state"
)

// Controller keeps one kind of object moving. Its methods are pure: they look
// at what they are given and at nothing else, so a decision can be repeated and
// explained.
type Controller interface {
	// Name is unique, lower case and stable: it names logs and metrics.
	Name() string
	// Reads lists the tables whose changes can make a key dirty.
	Reads() []string
	// Writes lists the tables that the commands change. Two controllers may
	// not write the same part of an object; the list is for the reader.
	Writes() []string
	// Keys returns the keys that a change makes dirty.
	Keys(c state.Change) []string
	// All returns every key that may need attention: asked once when the
	// controller starts and after a lost change feed.
	All(v *state.View) []string
	// Decide says what to do about key.
	Decide(in Input, key string) (Decision, error)
}

// Independent is a Controller whose decision about one key does not depend on what
// is decided about another at the same time: decisions about many keys go into
// the log as one entry.
type Independent interface {
	Controller
	// Independent says so; it does nothing.
	Independent()
}

// Input is what a decision may look at.
type Input struct {
	View  *state.View
	Now   time.Time
	NewID func() string // mints a UUID
}

// Decision is what a controller wants done.
type Decision struct {
	// Commands are proposed in order as one log entry.
	Commands []fsm.Command
	// Wake is when to decide again although nothing changed; zero is never.
	Wake time.Time
}
