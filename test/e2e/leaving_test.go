// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

func (a *agent) eligibility() string {
	a.T.Helper()
	nodes, _, err := a.Nodes(a.Context(), nil)
	if err != nil || len(nodes) != 1 {
		return ""
	}
	return nodes[0].SchedulingEligibility
}

func TestANodeThatLeavesIsDrainedFirstAndTakesWorkAgainWhenItIsBack(t *testing.T) {
	a := newAgent(t)
	a.Configure("leave_on_terminate = true\nclient {\n  drain_on_shutdown {\n    deadline = \"2s\"\n  }\n}\n")
	a.start()
	a.Run(harness.Shell("web", "service", 1, "", "exec sleep 1000"))
	pid := a.PIDs(a.Await("web", "running", 1))
	for _, p := range pid {
		if !harness.Running(p) {
			t.Fatal("the task does not run")
		}
	}
	if err := a.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.Done:
	case <-time.After(harness.Patience):
		t.Fatalf("the agent does not end\n%s", a.Log())
	}
	for _, p := range pid {
		if harness.Running(p) {
			t.Error("the agent left and its task runs on")
		}
	}
	a.start()
	a.Eventually(15*time.Second, "the node is eligible again", func() bool { return a.eligibility() == model.NodeSchedulingEligible })
	a.Await("web", "running", 1)
	// Without leave_on_interrupt it ends at once, and the task keeps running.
	if err := a.Cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.Done:
	case <-time.After(harness.Patience):
		t.Fatalf("the agent does not end\n%s", a.Log())
	}
	if strings.Count(a.Log(), "the node leaves") != 1 {
		t.Error("it left on SIGINT, too")
	}
	a.start()
	a.Await("web", "running", 1)
}

func TestANodeBeginsIneligibleAndRefusesCommandsIfItsOperatorSaysSo(t *testing.T) {
	a := newAgent(t)
	a.Configure("client {\n  default_ineligible = true\n  disable_remote_exec = true\n}\n")
	a.start()
	if got := a.eligibility(); got != model.NodeSchedulingIneligible {
		t.Fatalf("a new node is %s", got)
	}
	a.Must("node", "eligibility", "-self", "-enable")
	a.Kill()
	a.start()
	if got := a.eligibility(); got != model.NodeSchedulingEligible {
		t.Fatalf("a node that an operator made eligible is %s after a start of its agent", got)
	}
	a.Run(harness.Shell("web", "service", 1, "", "exec sleep 1000"))
	id := a.Await("web", "running", 1)[0].ID
	if out, code := a.CLI("alloc", "exec", id, "/bin/echo", "hi"); code == 0 || !strings.Contains(out, "Permission denied") || strings.Contains(out, "hi\n") {
		t.Errorf("exec: %d %s", code, out)
	}
}

func TestAnAllocEndsWhenItHasRunForItsTimeThoughItsAgentWasKilled(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("batch", "batch", 1, "max_run_duration = \"12s\"\nreschedule {\n  attempts = 0\n  unlimited = false\n}\n", "exec sleep 1000"))
	pid := a.PIDs(a.Await("batch", "running", 1))
	a.Kill()
	a.start()
	a.Await("batch", "failed", 1)
	for id, p := range pid {
		if harness.Running(p) {
			t.Error("the task runs on")
		}
		if out := a.Must("alloc", "status", id); !strings.Contains(out, "max_run_duration of 12s") {
			t.Error(out)
		}
	}
	if n := len(a.Allocs("batch", "")); n != 1 {
		t.Errorf("%d allocs", n)
	}
}
