// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

func (a *agent) eligibility() string {
	a.t.Helper()
	nodes, _, err := a.Nodes(a.ctx(), nil)
	if err != nil || len(nodes) != 1 {
		return ""
	}
	return nodes[0].SchedulingEligibility
}

func TestANodeThatLeavesIsDrainedFirstAndTakesWorkAgainWhenItIsBack(t *testing.T) {
	a := newAgent(t)
	a.configure("leave_on_terminate = true\nclient {\n  drain_on_shutdown {\n    deadline = \"2s\"\n  }\n}\n")
	a.start()
	a.run(shell("web", "service", 1, "", "exec sleep 1000"))
	pid := a.pids(a.await("web", "running", 1))
	for _, p := range pid {
		if !running(p) {
			t.Fatal("the task does not run")
		}
	}
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.done:
	case <-time.After(patience):
		t.Fatalf("the agent does not end\n%s", a.log())
	}
	for _, p := range pid {
		if running(p) {
			t.Error("the agent left and its task runs on")
		}
	}
	a.start()
	a.eventually(15*time.Second, "the node is eligible again", func() bool { return a.eligibility() == model.NodeSchedulingEligible })
	a.await("web", "running", 1)
	// Without leave_on_interrupt it ends at once, and the task keeps running.
	if err := a.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.done:
	case <-time.After(patience):
		t.Fatalf("the agent does not end\n%s", a.log())
	}
	if strings.Count(a.log(), "the node leaves") != 1 {
		t.Error("it left on SIGINT, too")
	}
	a.start()
	a.await("web", "running", 1)
}

func TestANodeBeginsIneligibleAndRefusesCommandsIfItsOperatorSaysSo(t *testing.T) {
	a := newAgent(t)
	a.configure("client {\n  default_ineligible = true\n  disable_remote_exec = true\n}\n")
	a.start()
	if got := a.eligibility(); got != model.NodeSchedulingIneligible {
		t.Fatalf("a new node is %s", got)
	}
	a.must("node", "eligibility", "-self", "-enable")
	a.kill()
	a.start()
	if got := a.eligibility(); got != model.NodeSchedulingEligible {
		t.Fatalf("a node that an operator made eligible is %s after a start of its agent", got)
	}
	a.run(shell("web", "service", 1, "", "exec sleep 1000"))
	id := a.await("web", "running", 1)[0].ID
	if out, code := a.cli("alloc", "exec", id, "/bin/echo", "hi"); code == 0 || !strings.Contains(out, "Permission denied") || strings.Contains(out, "hi\n") {
		t.Errorf("exec: %d %s", code, out)
	}
}

func TestAnAllocEndsWhenItHasRunForItsTimeThoughItsAgentWasKilled(t *testing.T) {
	a := newAgent(t).start()
	a.run(shell("batch", "batch", 1, "max_run_duration = \"12s\"\nreschedule {\n  attempts = 0\n  unlimited = false\n}\n", "exec sleep 1000"))
	pid := a.pids(a.await("batch", "running", 1))
	a.kill()
	a.start()
	a.await("batch", "failed", 1)
	for id, p := range pid {
		if running(p) {
			t.Error("the task runs on")
		}
		if out := a.must("alloc", "status", id); !strings.Contains(out, "max_run_duration of 12s") {
			t.Error(out)
		}
	}
	if n := len(a.allocs("batch", "")); n != 1 {
		t.Errorf("%d allocs", n)
	}
}
