// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// onPort returns a service of some priority that holds a static port.
func onPort(id, priority, script string) string {
	job := harness.Shell(id, "service", 1, "network {\n port \"p\" {\n static = 17391\n }\n }", script)
	return strings.Replace(job, "{\n", "{\n  priority = "+priority+"\n", 1)
}

// TestAnImportantJobTakesThePlaceOfAnother has two services that need the same port.
func TestAnImportantJobTakesThePlaceOfAnother(t *testing.T) {
	a := newAgent(t).start()
	a.Run(onPort("low", "20", "trap 'sleep 2; exit 0' TERM; while true; do sleep 0.1; done"))
	low := a.Await("low", model.AllocClientStatusRunning, 1)[0]
	file := filepath.Join(a.Dir, "high.nomad.hcl")
	if err := os.WriteFile(file, []byte(onPort("high", "60", "exec sleep 600")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := a.CLI("job", "plan", file); strings.Contains(out, "Preemptions:") {
		t.Errorf("services may not preempt by default:\n%s", out)
	}
	a.Must("operator", "scheduler", "set-config", "-preempt-service-scheduler=true")
	if out, code := a.CLI("job", "plan", file); code != 1 || !strings.Contains(out, "Preemptions:") || !strings.Contains(out, low.ID[:8]+"  low") {
		t.Errorf("plan: %d\n%s", code, out)
	}
	a.Run(onPort("high", "60", "exec sleep 600"))
	high := a.Await("high", model.AllocClientStatusRunning, 1)[0]
	was, _, err := a.Allocation(a.Context(), low.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if was.DesiredStatus != model.AllocDesiredStatusEvict || was.PreemptedByAllocation != high.ID || was.ClientStatus != model.AllocClientStatusComplete {
		t.Errorf("the alloc shall %s (%s) and is %s", was.DesiredStatus, was.DesiredDescription, was.ClientStatus)
	}
	now, _, err := a.Allocation(a.Context(), high.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if end, begin := was.TaskStates["t"].FinishedAt, now.TaskStates["t"].StartedAt; end == nil || begin == nil || begin.Before(*end) {
		t.Errorf("one has ended at %v, the other started at %v: they had the port at the same time", end, begin)
	}
	if len(now.PreemptedAllocations) != 1 || now.PreemptedAllocations[0] != low.ID {
		t.Errorf("it preempts %v", now.PreemptedAllocations)
	}
	a.Eventually(30*time.Second, "the job that was preempted waits for room", func() bool {
		evals, _, err := a.JobEvaluations(a.Context(), "low", nil)
		preempted, blocked := false, false
		for _, e := range evals {
			preempted = preempted || e.TriggeredBy == model.EvalTriggerPreemption && e.Status == model.EvalStatusComplete
			blocked = blocked || e.Status == model.EvalStatusBlocked
		}
		return err == nil && preempted && blocked
	})
	a.Must("job", "stop", "-detach", "high")
	if again := a.Await("low", model.AllocClientStatusRunning, 1)[0]; again.ID == low.ID {
		t.Error("an alloc that has ended runs again")
	}
}
