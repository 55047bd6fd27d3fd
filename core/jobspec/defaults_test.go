// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/jobspec"
)

func TestDefaultsOfAReschedulePolicyDoNotContradictWhatIsWritten(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		kind, block string
		attempts    int
		interval    time.Duration
		unlimited   bool
		refused     bool
	}{
		{"service", ``, 0, 0, true, false},
		{"batch", ``, 1, day, false, false},
		{"batch", `reschedule { delay = "10m" }`, 1, day, false, false},
		{"batch", `reschedule { unlimited = true }`, 0, 0, true, false},
		{"service", "reschedule {\n attempts = 3\n interval = \"1h\"\n}", 3, time.Hour, false, false},
		{"service", "reschedule {\n attempts = 0\n unlimited = true\n}", 0, 0, true, false},
		{"service", "reschedule {\n attempts = 3\n interval = \"1h\"\n unlimited = true\n}", 3, time.Hour, true, true},
		{"batch", "reschedule {\n attempts = 3\n unlimited = true\n}", 3, 0, true, true},
	} {
		src := `job "a" {
  type = "` + c.kind + `"
  group "g" {
    ` + c.block + `
    task "t" { driver = "raw_exec" }
  }
}`
		job, err := parse(t, src, jobspec.Options{}).Canonical()
		if err != nil {
			t.Fatal(err)
		}
		p := job.TaskGroups[0].ReschedulePolicy
		if p.Attempts != c.attempts || p.Interval != c.interval || p.Unlimited != c.unlimited {
			t.Errorf("%s %s: %+v", c.kind, c.block, p)
		}
		if err := job.Validate(); c.refused != (err != nil && strings.Contains(err.Error(), "is ambiguous")) || !c.refused && err != nil {
			t.Errorf("%s %s: %v", c.kind, c.block, err)
		}
		raw, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		again, err := jobspec.ParseJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		if job, err = again.Canonical(); err != nil || *job.TaskGroups[0].ReschedulePolicy != *p {
			t.Errorf("%s %s: as read back %+v, %v", c.kind, c.block, job.TaskGroups[0].ReschedulePolicy, err)
		}
	}
}
