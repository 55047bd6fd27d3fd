// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package control

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Controller drives one kind of object towards its desired state. Its methods are
// pure: they use only their arguments, so a decision can be repeated and explained.
type Controller interface {
	// Declare returns what the controller may touch. It is always the same.
	Declare() Declaration
	// Keys returns the keys that a change makes dirty.
	Keys(c state.Change) []string
	// All returns every key that may need attention. It is called when the controller
	// starts and after its feed has lost changes.
	All(v View) []string
	// Decide returns what to do about key.
	Decide(in Input, key string) (Decision, error)
}

// Declaration is what a controller may touch. The kernel enforces it: a controller
// sees no other table and proposes no other command.
type Declaration struct {
	// Name is unique, lower case and stable: logs and metrics use it.
	Name string
	// Wakes lists the tables whose changes can make a key dirty.
	Wakes []string
	// Reads lists the tables that the controller sees.
	Reads []string
	// Writes lists the commands that it proposes: one value of each type, such as
	// (*fsm.UpsertEvals)(nil). Two controllers must not write the same part of an
	// object.
	Writes []fsm.Command
	// Independent says that decisions about different keys do not depend on each
	// other: decisions about many keys are committed as one log entry.
	Independent bool
}

// Input is everything on which a decision may depend.
type Input struct {
	View  View
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

// Decide asks a controller about a key, and holds it to its declaration. An error of
// class Internal means that the controller read or wrote something that it does not
// declare, or panicked.
func Decide(c Controller, v *state.View, now time.Time, newID func() string, key string) (Decision, error) {
	return decide(c, Input{View: Restrict(v, c.Declare()), Now: now, NewID: newID}, key)
}

// All returns every key of a controller that may need attention, as Decide does.
func All(c Controller, v *state.View) (keys []string, err error) {
	defer panics.Handle(func(p *panics.Panic) { err = broken("naming everything there is to decide", p) })
	return c.All(Restrict(v, c.Declare())), nil
}

func decide(c Controller, in Input, key string) (d Decision, err error) {
	defer panics.Handle(func(p *panics.Panic) { d, err = Decision{}, broken("the decision", p) })
	d, err = c.Decide(in, key)
	if err != nil {
		return Decision{}, err
	}
	for _, cmd := range d.Commands {
		if !in.View.decl.writes(cmd) {
			return Decision{}, errdefs.Internalf("controller %q proposed a %T, which it does not declare: add it to the Writes of its declaration", in.View.decl.Name, cmd)
		}
	}
	return d, nil
}

// writes reports whether a command is declared.
func (d *Declaration) writes(cmd fsm.Command) bool {
	return slices.ContainsFunc(d.Writes, func(w fsm.Command) bool { return reflect.TypeOf(w) == reflect.TypeOf(cmd) })
}

// broken returns the error of a controller that panicked.
func broken(what string, p *panics.Panic) error {
	if u, ok := p.Value.(undeclared); ok {
		return u.err
	}
	return errdefs.New(errdefs.Internal, fmt.Errorf("%s panicked: %v\n%s", what, p.Value, p.Stack))
}
