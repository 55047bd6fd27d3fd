// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/state"
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

// Whatever happens between the look at a plan and its application, an alloc whose successor
// has not ended gets no other one.
func TestAnAllocGetsNoSecondSuccessorWhateverIsWrittenBetweenVerifyAndApply(t *testing.T) {
	doubled := func(level int) (n int) {
		for seed := range uint64(400) {
			if secondSuccessor(t, seed, level) {
				n++
			}
		}
		return n
	}
	if n := doubled(fsm.Level); n != 0 {
		t.Errorf("%d of 400 histories gave an alloc a second successor", n)
	}
	if n := doubled(1); n == 0 {
		t.Error("no history would do so without the check: this test checks nothing")
	}
}

// secondSuccessor plays one history, and reports whether an alloc got another successor
// while its first one still has its place.
func secondSuccessor(t *testing.T, seed uint64, level int) bool {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &stale{t: t, store: state.New()}
	s.fsm = fsm.New(s.store, hclog.NewNullLogger())
	s.apply(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	s.apply(&fsm.RaiseLevel{Level: level})
	s.node(0, 300)
	s.node(1, 300)
	s.important("job", 50)
	next := func(id, previous string, changes ...model.AllocChange) *model.Plan {
		a := alloc100(id, "job")
		a.NodeID, a.PreviousAllocation = fmt.Sprint("n", rng.IntN(2)), previous
		return &model.Plan{EvalID: "e", Namespace: "default", JobID: "job", SnapshotIndex: s.store.View().Index(), Place: []*model.Allocation{a}, Change: changes}
	}
	original := next("original", "")
	s.apply(&fsm.ApplyPlan{Plan: original, VerifiedIndex: s.store.View().Index(), UpdatedAt: 1})
	s.apply(&fsm.ApplyPlan{Plan: next("heir", "original"), VerifiedIndex: s.store.View().Index(), UpdatedAt: 1})
	heir := s.store.View().AllocByID("heir")
	s.apply(&fsm.UpdateNodeStatus{NodeID: heir.NodeID, Status: model.NodeStatusDisconnected})
	p := next("third", "original",
		model.AllocChange{AllocID: "heir", Kind: model.AllocStop, ClientStatus: model.AllocClientStatusLost},
		model.AllocChange{AllocID: "original", Kind: model.AllocStop})
	p.Place[0].NodeID = map[string]string{"n0": "n1", "n1": "n0"}[heir.NodeID]
	for rng.IntN(3) > 0 { // what is written after the plan was made
		disturb(s, rng)
	}
	view := s.store.View()
	if r := plan.Verify(view, p); !r.IsNoOp() {
		for rng.IntN(3) > 0 { // and after the look
			disturb(s, rng)
		}
		s.apply(fsm.NewApplyPlan(p, r, view.Index(), 1))
	}
	view = s.store.View()
	return view.AllocByID("original").NextAllocation == "third" && !view.AllocByID("heir").TerminalStatus()
}

// disturb writes something that concerns the allocs of a history of secondSuccessor.
func disturb(s *stale, rng *rand.Rand) {
	view := s.store.View()
	a := view.AllocByID([]string{"original", "heir"}[rng.IntN(2)])
	switch rng.IntN(3) {
	case 0:
		status := []string{model.NodeStatusReady, model.NodeStatusReady, model.NodeStatusDown, model.NodeStatusDisconnected}[rng.IntN(4)]
		s.apply(&fsm.UpdateNodeStatus{NodeID: a.NodeID, Status: status})
	case 1:
		if a.ClientTerminalStatus() {
			return
		}
		c := a.Copy()
		c.ClientStatus = []string{model.AllocClientStatusRunning, model.AllocClientStatusFailed, model.AllocClientStatusComplete}[rng.IntN(3)]
		s.apply(&fsm.UpdateAllocsFromClient{Reports: []*model.AllocReport{c.ReportSince(nil)}, At: 2})
	default:
		s.apply(&fsm.UpdateNodeEligibility{NodeID: a.NodeID, Eligibility: model.NodeSchedulingEligible})
	}
}
