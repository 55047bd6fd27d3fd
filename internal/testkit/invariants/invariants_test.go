// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package invariants_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
)

func TestABrokenLinkIsNamed(t *testing.T) {
	s := state.New()
	if err := s.Update(5, func(tx *state.Tx) error {
		tx.UpsertEval(&model.Evaluation{ID: "e", JobID: "a", NextEval: "f"})
		tx.UpsertEval(&model.Evaluation{ID: "f", JobID: "b", PreviousEval: "e"})
		tx.PlaceAlloc(&model.Allocation{ID: "x", JobID: "a", NextAllocation: "y"}, 1)
		tx.PlaceAlloc(&model.Allocation{ID: "y", JobID: "a", FollowupEvalID: "f"}, 1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	got := invariants.Broken(s.View())
	for _, want := range []string{"evaluation e of job a is continued by f of job b", "alloc x has successor y", "alloc y of job a has follow-up evaluation f of job b"} {
		if !slices.ContainsFunc(got, func(b string) bool { return strings.HasPrefix(b, want) }) {
			t.Errorf("%q does not name: %s", got, want)
		}
	}
	if got := invariants.Broken(state.New().View()); got != nil {
		t.Errorf("a new state: %q", got)
	}
}
