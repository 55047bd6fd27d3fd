// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keys_test

import (
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

func TestOldKeysAreReplacedAndRemovedOnceNothingNeedsThem(t *testing.T) {
	const hour = int64(time.Hour)
	limits := keys.Limits{Rotation: 10 * time.Hour, Removal: 2 * time.Hour}
	add := func(w world, id string, created int64) {
		w.apply(&fsm.UpsertRootKey{Key: &model.RootKey{KeyID: id, State: model.RootKeyActive, CreateTime: created}})
	}
	w := newWorld(t)
	due := func(at int64) (bool, []string) { return limits.Due(w.Store().View(), time.Unix(0, at)) }
	if rotate, remove := due(100 * hour); rotate || len(remove) > 0 {
		t.Errorf("without a key: %v %q", rotate, remove)
	}
	add(w, "a", 0)
	for at, want := range map[int64]bool{-hour: false, 10*hour - 1: false, 10 * hour: true} {
		if rotate, remove := due(at); rotate != want || len(remove) > 0 {
			t.Errorf("one key at %s: %v %q", time.Duration(at), rotate, remove)
		}
	}
	data, err := fsm.Encode(&fsm.PutVariable{Variable: &model.Variable{Namespace: model.DefaultNamespace, Path: "x", KeyID: "a", Data: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	w.ApplyBatch([]fsm.Entry{{Index: w.Store().View().Index() + 1, Data: data}}) // its answer is the variable
	add(w, "b", 10*hour)
	add(w, "c", 11*hour)
	if rotate, remove := due(12*hour - 1); rotate || len(remove) > 0 {
		t.Errorf("too early: %v %q", rotate, remove)
	}
	rotate, remove := due(13 * hour)
	if rotate || !slices.Equal(remove, []string{"b"}) {
		t.Errorf("a key with a variable, an unused one and the active one: %v %q", rotate, remove)
	}
	for _, id := range remove {
		w.apply(&fsm.DeleteRootKey{KeyID: id})
	}
	if _, remove := due(13 * hour); len(remove) > 0 {
		t.Errorf("after the removal: %q", remove)
	}
}

func TestAPrepublishedKeyIsNotOvertaken(t *testing.T) {
	w := newWorld(t)
	w.apply(&fsm.UpsertRootKey{Key: &model.RootKey{KeyID: "a", State: model.RootKeyActive}})
	w.key("b", 1<<30)
	if rotate, remove := keys.DefaultLimits().Due(w.Store().View(), time.Unix(1<<29, 0)); rotate || len(remove) > 0 {
		t.Errorf("%v %q", rotate, remove)
	}
}
