// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package propose_test

import (
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestALevelThatAFullDiskKeepsLowIsTheDisksFault(t *testing.T) {
	old, full := errdefs.Unavailablef("the leader is about to raise the level"), errdefs.ResourceExhaustedf("the disk is full")
	entry, err := fsm.Encode(&fsm.DeleteService{Namespace: "default", ID: "a"}) // of level 2
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		level int
		disk  error
		want  error
	}{{1, nil, old}, {1, full, full}, {2, full, nil}, {2, nil, nil}} { // what the level allows, the log itself refuses
		gate := propose.Gate{Level: func() int { return c.level }, Refuse: func(int) error { return old }, CannotRaise: func() error { return c.disk }}
		if got := gate.Check(entry); got != c.want { //nolint:errorlint // the very error
			t.Errorf("at level %d with the disk %v: %v, want %v", c.level, c.disk, got, c.want)
		}
	}
	if got := (propose.Gate{Level: func() int { return 1 }, Refuse: func(int) error { return old }}).Check(entry); got != old { //nolint:errorlint // the very error
		t.Errorf("where nothing is known about the disk: %v", got)
	}
}
