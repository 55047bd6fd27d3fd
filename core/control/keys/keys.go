// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package keys owns the controller that makes prepublished root keys active when
// their time comes. The times are in state, so a restart and a change of leaders lose
// none. It makes no keys and opens nothing (core/endpoint and core/auth/keyring do).
// core/server imports it.
package keys

import (
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// key is the one thing that this controller looks after: all of the keyring, of
// which one key can be active.
const key = "keyring"

// Controller activates keys.
type Controller struct{}

var _ control.Controller = Controller{}

// Name returns "keyring".
func (Controller) Name() string { return "keyring" }

// Reads lists what wakes the controller.
func (Controller) Reads() []string { return []string{state.TableRootKeys} }

// Writes lists what its commands change.
func (Controller) Writes() []string { return []string{state.TableRootKeys} }

// Keys returns the one key.
func (Controller) Keys(state.Change) []string { return []string{key} }

// All returns the one key.
func (Controller) All(*state.View) []string { return []string{key} }

// Decide activates the key whose time came last and says when the next one comes. One
// whose time came before that, while no server led, was for a time that is over.
func (Controller) Decide(in control.Input, _ string) (control.Decision, error) {
	var due, next *model.RootKey
	for k := range in.View.RootKeys() {
		switch {
		case k.State != model.RootKeyPrepublished:
		case k.PublishTime > in.Now.UnixNano():
			if next == nil || k.PublishTime < next.PublishTime {
				next = k
			}
		case due == nil || k.PublishTime >= due.PublishTime:
			due = k
		}
	}
	var d control.Decision
	if due != nil {
		d.Commands = []fsm.Command{&fsm.ActivateRootKey{KeyID: due.KeyID}}
	}
	if next != nil {
		d.Wake = time.Unix(0, next.PublishTime)
	}
	return d, nil
}
