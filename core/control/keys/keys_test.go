// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keys_test

import (
	"bytes"
	"maps"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

type world struct {
	t *testing.T
	*fsm.FSM
}

func newWorld(t *testing.T) world {
	return world{t: t, FSM: fsm.New(state.New(), hclog.NewNullLogger())}
}

func (w world) apply(cmds ...fsm.Command) {
	w.t.Helper()
	for _, c := range cmds {
		data, err := fsm.Encode(c)
		if err != nil {
			w.t.Fatal(err)
		}
		if answer := w.ApplyBatch([]fsm.Entry{{Index: w.Store().View().Index() + 1, Data: data}})[0]; answer != nil {
			w.t.Fatal(answer)
		}
	}
}

// key stores a key: active at once, or prepublished for a second of the epoch.
func (w world) key(id string, publish int64) {
	k := &model.RootKey{KeyID: id, State: model.RootKeyActive}
	if publish != 0 {
		k.State, k.PublishTime = model.RootKeyPrepublished, publish*int64(time.Second)
	}
	w.apply(&fsm.UpsertRootKey{Key: k})
}

// at decides at a second of the epoch, does what was decided and returns the second
// of the next look, 0 for none.
func (w world) at(second int64) int64 {
	w.t.Helper()
	d, err := control.Decide(keys.Controller{}, w.Store().View(), time.Unix(second, 0), nil, "keyring")
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(d.Commands...)
	if d.Wake.IsZero() {
		return 0
	}
	return d.Wake.Unix()
}

func (w world) want(states map[string]string) {
	w.t.Helper()
	got := map[string]string{}
	for k := range w.Store().View().RootKeys() {
		got[k.KeyID] = k.State
	}
	if !maps.Equal(got, states) {
		w.t.Errorf("got %v, want %v", got, states)
	}
}

const (
	active, inactive, waits = model.RootKeyActive, model.RootKeyInactive, model.RootKeyPrepublished
)

func TestAPrepublishedKeyBecomesActiveAtItsTimeAndNotBefore(t *testing.T) {
	w := newWorld(t)
	w.key("old", 0)
	w.key("new", 100)
	w.want(map[string]string{"old": active, "new": waits})
	if wake := w.at(99); wake != 100 {
		t.Errorf("looks again at %d, want 100", wake)
	}
	w.want(map[string]string{"old": active, "new": waits})
	if wake := w.at(100); wake != 0 {
		t.Errorf("looks again at %d", wake)
	}
	w.want(map[string]string{"old": inactive, "new": active})
	w.apply(&fsm.ActivateRootKey{KeyID: "new"}, &fsm.ActivateRootKey{KeyID: "gone"}, &fsm.ActivateRootKey{KeyID: "old"}) // a former leader's, late
	w.want(map[string]string{"old": inactive, "new": active})
}

func TestARotationMeanwhileHoldsUntilThePrepublishedKeysTime(t *testing.T) {
	w := newWorld(t)
	w.key("old", 0)
	w.key("planned", 100)
	w.key("urgent", 0)
	w.want(map[string]string{"old": inactive, "planned": waits, "urgent": active})
	w.at(100)
	w.want(map[string]string{"old": inactive, "planned": active, "urgent": inactive})
}

func TestOfSeveralPrepublishedKeysTheLatestWhoseTimeHasComeIsActive(t *testing.T) {
	w := newWorld(t)
	w.key("old", 0)
	w.key("b", 100)
	w.key("a", 200)
	w.key("c", 300)
	if wake := w.at(250); wake != 300 { // nobody led from 100 to 250
		t.Errorf("looks again at %d, want 300", wake)
	}
	w.want(map[string]string{"old": inactive, "b": inactive, "a": active, "c": waits})
	w.at(300)
	w.want(map[string]string{"old": inactive, "b": inactive, "a": inactive, "c": active})
}

func TestARemovedPrepublishedKeyNeverBecomesActive(t *testing.T) {
	w := newWorld(t)
	w.key("old", 0)
	w.key("new", 100)
	w.apply(&fsm.DeleteRootKey{KeyID: "new"})
	if wake := w.at(100); wake != 0 {
		t.Errorf("looks again at %d", wake)
	}
	w.want(map[string]string{"old": active})
}

func TestPrepublishedKeysSurviveASnapshot(t *testing.T) {
	w := newWorld(t)
	w.key("old", 0)
	w.key("new", 100)
	var saved bytes.Buffer
	if err := w.Store().View().Save(&saved, fsm.NewCodec()); err != nil {
		t.Fatal(err)
	}
	again := newWorld(t)
	if err := again.Store().Restore(&saved, fsm.NewCodec()); err != nil {
		t.Fatal(err)
	}
	again.at(100)
	again.want(map[string]string{"old": inactive, "new": active})
}

// Making a signing key takes 100 ms: another key may be active by then, or this one gone.
func TestASigningKeyThatComesLateChangesNoState(t *testing.T) {
	w := newWorld(t)
	w.key("a", 0)
	w.key("b", 0)
	w.apply(&fsm.UpsertRootKey{Key: &model.RootKey{KeyID: "a", State: active, PublicRSA: []byte("x")}, OnlyKnown: true})
	w.want(map[string]string{"a": inactive, "b": active})
	if w.Store().View().RootKeyByID("a").PublicRSA == nil {
		t.Error("the signing key is lost")
	}
	w.apply(&fsm.DeleteRootKey{KeyID: "a"})
	data, err := fsm.Encode(&fsm.UpsertRootKey{Key: &model.RootKey{KeyID: "a", State: active}, OnlyKnown: true})
	if err != nil {
		t.Fatal(err)
	}
	if answer := w.ApplyBatch([]fsm.Entry{{Index: w.Store().View().Index() + 1, Data: data}})[0]; answer == nil {
		t.Error("a key that was removed is stored again")
	}
	w.want(map[string]string{"b": active})
}
