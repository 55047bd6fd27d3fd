// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan_test

import (
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
)

func TestAnAllocGetsNoSecondSuccessorWhenTheFirstHasComeBackSinceThePlanWasMade(t *testing.T) {
	f := start(t)
	close(f.log.gate)
	submit := func(id, previous string) {
		t.Helper()
		p := f.place("0", "n", 10)
		p.Place[0].ID, p.Place[0].PreviousAllocation = id, previous
		if r, err := f.applier.Submit(t.Context(), p); err != nil || len(r.Place) != 1 {
			t.Fatal(r, err)
		}
	}
	submit("original", "")
	submit("heir", "original")
	status := func(s string) {
		t.Helper()
		data, err := fsm.Encode(&fsm.UpdateNodeStatus{NodeID: "n", Status: s})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.log.Propose(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	status(model.NodeStatusDisconnected)
	p := f.place("0", "n", 10)
	p.Place[0].ID, p.Place[0].PreviousAllocation = "third", "original"
	p.Change = []model.AllocChange{
		{AllocID: "heir", Kind: model.AllocStop, ClientStatus: model.AllocClientStatusLost},
		{AllocID: "original", Kind: model.AllocStop},
	}
	status(model.NodeStatusReady)
	r := plan.Verify(f.store.View(), p)
	if len(r.Place) > 0 || len(r.Change) > 0 || len(r.Rejections) < 2 || r.RefreshIndex == 0 {
		t.Errorf("accepted: %+v", r)
	}
	// If the heir ends, the original may have another successor.
	p.Change[0].ClientStatus = ""
	if r := plan.Verify(f.store.View(), p); len(r.Place) != 1 || len(r.Change) != 2 {
		t.Errorf("refused: %+v", r)
	}
}
