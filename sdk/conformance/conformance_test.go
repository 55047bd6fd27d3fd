// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package conformance_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
)

func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		check   func(*conformance.T)
		outcome conformance.Outcome
		says    string
	}{
		"a check that says nothing passes":  {func(*conformance.T) {}, conformance.Passed, ""},
		"all problems are kept":             {func(t *conformance.T) { t.Errorf("one"); t.Errorf("two") }, conformance.Failed, "one|two"},
		"a fatal problem ends the check":    {func(t *conformance.T) { t.Fatalf("one"); t.Errorf("two") }, conformance.Failed, "one"},
		"a skip says why":                   {func(t *conformance.T) { t.Skipf("not %s", "here") }, conformance.Skipped, "not here"},
		"a problem counts more than a skip": {func(t *conformance.T) { t.Errorf("one"); t.Skipf("not here") }, conformance.Failed, "one"},
		"a panic is a problem":              {func(*conformance.T) { panic("lost") }, conformance.Failed, "panic: lost"},
	} {
		t.Run(name, func(t *testing.T) {
			r := conformance.Run(t.Context(), "name", "rule", time.Minute, c.check)
			said := strings.Join(r.Problems, "|")
			if r.Outcome == conformance.Skipped {
				said = r.Reason
			}
			if r.Outcome != c.outcome || !strings.HasPrefix(said, c.says) || c.says == "" && said != "" || r.Name != "name" || r.Rule != "rule" {
				t.Errorf("result %+v, want %s and %q", r, c.outcome, c.says)
			}
		})
	}
}

// TestACheckThatIsInterruptedDoesNotFail: only what was wrong before counts.
func TestACheckThatIsInterruptedDoesNotFail(t *testing.T) {
	for before, outcome := range map[string]conformance.Outcome{"": conformance.Skipped, "wrong": conformance.Failed} {
		ctx, interrupt := context.WithCancel(t.Context())
		r := conformance.Run(ctx, "name", "rule", time.Minute, func(t *conformance.T) {
			if before != "" {
				t.Errorf("%s", before)
			}
			interrupt()
			conformance.Receive(t, make(chan int), "a value")
		})
		if said := strings.Join(r.Problems, "|"); r.Outcome != outcome || said != before || outcome == conformance.Skipped && r.Reason != "interrupted" {
			t.Errorf("a check with the problem %q before: %+v", before, r)
		}
	}
}

func TestCleanupsRunLastFirstAndAlsoAfterAFatalProblem(t *testing.T) {
	var order []string
	conformance.Run(t.Context(), "name", "rule", time.Minute, func(t *conformance.T) {
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() { order = append(order, "second") })
		t.Fatalf("over")
	})
	if !slices.Equal(order, []string{"second", "first"}) {
		t.Errorf("cleanups ran as %q", order)
	}
}

func TestACheckThatNeverReturnsFailsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := conformance.Run(t.Context(), "name", "rule", time.Minute, func(*conformance.T) { <-release })
		close(release)
		if r.Outcome != conformance.Failed || r.Took < time.Minute || r.Took > 2*time.Minute {
			t.Errorf("result %+v", r)
		}
	})
}
