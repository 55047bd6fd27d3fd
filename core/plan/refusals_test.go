// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/propose"
)

// refuse submits plans that the node has no room for.
func (f *fixture) refuse(t *testing.T, times int) {
	t.Helper()
	for range times {
		r, err := f.applier.Submit(t.Context(), f.place("0", "n", 5000))
		if err != nil || len(r.Rejections) != 1 || r.Rejections[0].Reason != "cpu" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}

func (f *fixture) eligible() bool {
	return f.store.View().NodeByID("n").SchedulingEligibility == model.NodeSchedulingEligible
}

func TestANodeThatKeepsRefusingPlansGetsNoneAnyMoreAndSaysWhy(t *testing.T) {
	f := begin(t, plan.Tracking{Threshold: 3, Window: time.Hour})
	close(f.log.gate)
	f.refuse(t, 2)
	if !f.eligible() {
		t.Fatal("it was taken out of service before the threshold")
	}
	f.refuse(t, 1)
	n := f.store.View().NodeByID("n")
	if f.eligible() || len(n.Events) == 0 || !strings.Contains(n.Events[len(n.Events)-1].Message, "it refused 3 plans within 1h0m0s, the last one because of: cpu") {
		t.Fatalf("it is %s, with the events %+v", n.SchedulingEligibility, n.Events)
	}
	// An operator knows better. Then the count begins anew.
	if _, err := propose.Commands(context.Background(), f.log, &fsm.UpdateNodeEligibility{NodeID: "n", Eligibility: model.NodeSchedulingEligible}); err != nil {
		t.Fatal(err)
	}
	f.refuse(t, 2)
	if !f.eligible() {
		t.Error("what was refused before counts again")
	}
}

func TestRefusalsAreForgottenAfterAWhile(t *testing.T) {
	f := begin(t, plan.Tracking{Threshold: 2, Window: time.Nanosecond})
	close(f.log.gate)
	f.refuse(t, 5)
	if !f.eligible() {
		t.Error("refusals of different times were counted together")
	}
}

func TestWithoutTrackingNoNodeIsTakenOutOfService(t *testing.T) {
	f := start(t)
	close(f.log.gate)
	f.refuse(t, 120)
	if !f.eligible() {
		t.Error("it is not eligible any more")
	}
}
