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
	due := func(at int64) (publish int64, remove []string) {
		d := limits.Due(w.Store().View(), time.Unix(0, at))
		if !d.Publish.IsZero() {
			publish = d.Publish.UnixNano()
		}
		return publish, d.Remove
	}
	if publish, remove := due(100 * hour); publish != 0 || len(remove) > 0 {
		t.Errorf("without a key: %v %q", publish, remove)
	}
	add(w, "a", 0)
	for at, want := range map[int64]int64{-hour: 0, 5*hour - 1: 0, 5 * hour: 10 * hour, 10 * hour: 10 * hour, 30 * hour: 10 * hour} {
		if publish, remove := due(at); publish != want || len(remove) > 0 {
			t.Errorf("one key at %s: %v %q", time.Duration(at), publish, remove)
		}
	}
	data, err := fsm.Encode(&fsm.PutVariable{Variable: &model.Variable{Namespace: model.DefaultNamespace, Path: "x", KeyID: "a", Data: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	w.ApplyBatch([]fsm.Entry{{Index: w.Store().View().Index() + 1, Data: data}}) // its answer is the variable
	add(w, "b", 10*hour)
	add(w, "c", 11*hour)
	if publish, remove := due(12*hour - 1); publish != 0 || len(remove) > 0 {
		t.Errorf("too early: %v %q", publish, remove)
	}
	publish, remove := due(13 * hour)
	if publish != 0 || !slices.Equal(remove, []string{"b"}) {
		t.Errorf("a key with a variable, an unused one and the active one: %v %q", publish, remove)
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
	if d := keys.DefaultLimits().Due(w.Store().View(), time.Unix(1<<29, 0)); !d.Publish.IsZero() || len(d.Remove) > 0 {
		t.Errorf("%+v", d)
	}
}
