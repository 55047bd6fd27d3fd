// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package control

import (
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/state"
)

// Controller drives one kind of object towards its desired state. Its methods are
// pure: they use only their arguments, so a decision can be repeated and explained.
type Controller interface {
	// Name is unique, lower case and stable: logs and metrics use it.
	Name() string
	// Reads lists the tables whose changes can make a key dirty.
	Reads() []string
	// Writes lists the tables that the commands change. Two controllers must not write
	// the same part of an object; the list is documentation.
	Writes() []string
	// Keys returns the keys that a change makes dirty.
	Keys(c state.Change) []string
	// All returns every key that may need attention. It is called when the controller
	// starts and after its feed has lost changes.
	All(v *state.View) []string
	// Decide returns what to do about key.
	Decide(in Input, key string) (Decision, error)
}

// Independent is a Controller whose decisions about different keys do not depend on
// each other: decisions about many keys are committed as one log entry.
type Independent interface {
	Controller
	// Independent is a marker method.
	Independent()
}

// Input is everything on which a decision may depend.
type Input struct {
	View  *state.View
	Now   time.Time
	NewID func() string // generates a UUID
}

// Decision is the result of a controller's Decide.
type Decision struct {
	// Commands are proposed in order as one log entry.
	Commands []fsm.Command
	// Wake is when to decide again even if nothing changes; zero means never.
	Wake time.Time
}
