// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package checks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/model"
)

func TestResultsMakeTheStatusThatTheCheckAsksFor(t *testing.T) {
	// s, w and f are results; after each comes the status: P, S, W or F. A small letter
	// says that it stands in the way of the alloc's health.
	for name, c := range map[string]struct {
		check model.ServiceCheck
		story string
	}{
		"default":                  {model.ServiceCheck{}, "p sS ff sS ww sS"},
		"initial passing":          {model.ServiceCheck{InitialStatus: "passing"}, "S ff"},
		"initial critical":         {model.ServiceCheck{InitialStatus: "critical"}, "f sS"},
		"success_before_passing":   {model.ServiceCheck{SuccessBeforePassing: 3}, "p sp sp sS ff sf sf ff sf sf sS"},
		"failures_before_critical": {model.ServiceCheck{FailuresBeforeCritical: 3}, "p sS fS fS sS fS fS ff"},
		"failures_before_warning":  {model.ServiceCheck{FailuresBeforeCritical: 3, FailuresBeforeWarning: 2}, "p sS fS fw ff sS"},
		"ignore_warnings":          {model.ServiceCheck{OnUpdate: model.OnUpdateIgnoreWarn}, "p wW ff wW sS"},
	} {
		now := time.Unix(1000, 0)
		var s checks.State
		for i, part := range strings.Fields(c.story) {
			want := part[len(part)-1:]
			if i == 0 {
				s = checks.Begin(&c.check, "r", now)
			} else {
				o := map[byte]checks.Status{'s': checks.Success, 'w': checks.Warning, 'f': checks.Failure}[part[0]]
				now = now.Add(time.Second)
				s = s.Next(&c.check, checks.Outcome{Status: o}, time.Unix(1000, 0), now)
			}
			got := map[checks.Status]string{checks.Pending: "p", checks.Success: "s", checks.Warning: "w", checks.Failure: "f"}[s.Status]
			if !s.GoodSince.IsZero() {
				got = strings.ToUpper(got)
			}
			if got != want {
				t.Errorf("%s: step %d of %q gives %s", name, i, c.story, got)
			}
		}
	}
}

func TestCheckRestartIgnoresWarningsIfItSaysSo(t *testing.T) {
	for ignore, want := range map[bool]int{false: 2, true: 0} {
		c := &model.ServiceCheck{CheckRestart: &model.CheckRestart{Limit: 5, IgnoreWarnings: ignore}}
		s := checks.Begin(c, "r", time.Unix(0, 0))
		for range 2 {
			s = s.Next(c, checks.Outcome{Status: checks.Warning}, time.Unix(0, 0), time.Unix(9, 0))
		}
		if s.Bad != want {
			t.Errorf("ignore_warnings = %t: %d warnings count", ignore, s.Bad)
		}
	}
}
