// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package keys owns the controller that activates prepublished root keys at their
// publish time, and the limits of the age of keys. The times are in state, so a restart
// or a change of leader loses none.
// It creates and decrypts no keys (core/endpoint and core/auth/keyring do).
// core/server imports it.
package keys

import (
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// key is the only key of this controller: the whole keyring, in which one root key is
// active.
const key = "keyring"

// Controller activates root keys.
type Controller struct{}

var _ control.Controller = Controller{}

var declaration = control.Declaration{
	Name:   "keyring",
	Wakes:  []string{state.TableRootKeys},
	Reads:  []string{state.TableJobVersions, state.TableRootKeys},
	Writes: []fsm.Command{(*fsm.ActivateRootKey)(nil)},
}

// Declare returns what the controller may touch.
func (Controller) Declare() control.Declaration { return declaration }

// Keys returns the only key.
func (Controller) Keys(state.Change) []string { return []string{key} }

// All returns the only key.
func (Controller) All(control.View) []string { return []string{key} }

// Decide activates the due key with the latest publish time, and returns when the next
// one is due. Keys that became due before it, while no server was leader, are
// superseded.
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
