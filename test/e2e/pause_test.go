// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// The servers of these tests have a lease of 8 s and no grace period.

func TestHostileAServerThatWasStoppedForLongerThanALeaseLosesNoNodeAndReplacesNothing(t *testing.T) {
	m := newMachines(t, "one", "two")
	m.server.Run(strings.Replace(spreadJob, "count = 3", "count = 2", 1))
	pids := m.pids(m.server.Await("spread", "running", 2))
	server := m.server.Cmd.Process.Pid // nsenter has executed the agent
	if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(25 * time.Second) // three leases: the test is about this time
	if err := syscall.Kill(server, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(15 * time.Second); time.Now().Before(until); time.Sleep(500 * time.Millisecond) {
		nodes, _, err := m.server.Nodes(m.server.Context(), nil)
		if err != nil {
			continue
		}
		for _, n := range nodes {
			if n.Status != model.NodeStatusReady {
				t.Fatalf("node %s is %s", n.Name, n.Status)
			}
		}
	}
	m.connected()
	m.unharmed("spread", pids)
}

func TestHostileANodeWhoseAgentIsStoppedAndStartedAgainKeepsItsTasks(t *testing.T) {
	m := newMachines(t, "one", "two")
	m.server.Run(strings.Replace(spreadJob, "count = 3", "count = 2", 1))
	pids := m.pids(m.server.Await("spread", "running", 2))
	m.nodes["one"].terminate()
	time.Sleep(15 * time.Second) // nearly two leases: the test is about this time
	m.nodes["one"].Launch()
	m.connected()
	m.ready("one", "two")
	m.unharmed("spread", pids)
}

func TestHostileOfTwoAgentsOnCopiesOfADataDirectoryOneIsTheNode(t *testing.T) {
	m := newMachines(t, "one")
	m.server.Run(strings.Replace(spreadJob, "count = 3", "count = 1", 1))
	pids := m.pids(m.server.Await("spread", "running", 1))
	twin := &agent{m.network.Machine("twin", harness.NodeOf(m.server.Agent))}
	if err := os.MkdirAll(twin.Data, 0o711); err != nil {
		t.Fatal(err)
	}
	m.nodes["one"].Kill() // the store must not change while it is copied
	if out, err := exec.Command("cp", "-a", filepath.Join(m.nodes["one"].Data, "client"), twin.Data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.nodes["one"].Launch()
	m.connected()
	index := func() string {
		self, err := m.server.AgentSelf(m.server.Context())
		if err != nil {
			t.Fatal(err)
		}
		return self.Stats["raft"]["last_log_index"]
	}
	twin.Launch()
	twin.Eventually(20*time.Second, "the second agent is refused with a word", func() bool {
		return strings.Contains(twin.Log(), "another agent acts as node")
	})
	// The reports of the first agent's start come to an end. Two agents that compete for
	// the node would never stop reporting.
	before, since := index(), time.Now()
	m.server.Eventually(time.Minute, "nothing is written for 5 s while one of them is refused", func() bool {
		if now := index(); now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > 5*time.Second
	})
	if !strings.Contains(twin.Log()[len(twin.Log())/2:], "another agent acts as node") {
		t.Error("the second agent is not refused any more")
	}
	m.connected()
	m.unharmed("spread", pids)
}
