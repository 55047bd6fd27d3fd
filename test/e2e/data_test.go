// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// keeper is a job whose only alloc keeps data: it writes a file of some megabytes and what
// else a move has to keep, unless it finds that of the alloc before it.
func keeper(id string, megabytes int) string {
	return harness.Shell(id, "service", 1, `
    ephemeral_disk {
      sticky  = true
      migrate = true
      size    = 2000
    }`, fmt.Sprintf(`
cd $NOMAD_ALLOC_DIR/data
if [ -f first ]; then echo found; else
  echo "not found"
  truncate -s %dM big; mkdir -p closed; echo hello > closed/text; chmod 0640 closed/text; chmod 0750 closed
  ln -s /etc/hostname link; ln closed/text other-name; echo mine > $NOMAD_TASK_DIR/kept
  echo $NOMAD_ALLOC_ID > first
fi
exec sleep 100000`, megabytes))
}

// other returns the node of two that an alloc is not on.
func (m *machines) other(x *model.AllocListStub) *agent {
	for name, n := range m.nodes {
		if name != x.NodeName {
			return n
		}
	}
	return nil
}

// keeps waits until the job's alloc has written its data.
func (m *machines) keeps(job string) *model.AllocListStub {
	m.t.Helper()
	x := m.server.Await(job, "running", 1)[0]
	m.nodes[x.NodeName].Eventually(harness.Patience, "the task has written its data", func() bool {
		_, err := os.Stat(m.nodes[x.NodeName].Path(x.ID, "alloc/data/first"))
		return err == nil
	})
	return x
}

// arrived checks that an alloc has the data of the one before it.
func (m *machines) arrived(x *model.AllocListStub, from string, megabytes int64) {
	m.t.Helper()
	n := m.nodes[x.NodeName]
	data := n.Path(x.ID, "alloc/data")
	if body, err := os.ReadFile(filepath.Join(data, "first")); err != nil || strings.TrimSpace(string(body)) != from {
		m.t.Errorf("the data of alloc %s is not there: %q, %v", from, body, err)
	}
	if body, err := os.ReadFile(n.Path(x.ID, "t/local/kept")); err != nil || string(body) != "mine\n" {
		m.t.Errorf("the task's own folder: %q, %v", body, err)
	}
	for name, mode := range map[string]os.FileMode{"closed": os.ModeDir | 0o750, "closed/text": 0o640, "other-name": 0o640} {
		if info, err := os.Stat(filepath.Join(data, name)); err != nil || info.Mode() != mode {
			m.t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(data, "link")); err != nil || to != "/etc/hostname" {
		m.t.Errorf("the link leads to %q, %v", to, err)
	}
	if info, err := os.Stat(filepath.Join(data, "big")); err != nil || info.Size() != megabytes<<20 {
		m.t.Errorf("big: %v, %v", info, err)
	}
	m.server.Eventually(harness.Patience, "the task finds the data", func() bool {
		out, _ := m.server.CLI("alloc", "logs", x.ID, "t")
		return strings.TrimSpace(out) == "found"
	})
	if out := m.server.Must("alloc", "status", x.ID); !strings.Contains(out, "has been moved here") {
		m.t.Error(out)
	}
}

// movesTo waits until data is arriving for the job's newest alloc, and returns it.
func (m *machines) movesTo(n *agent, job string) *model.AllocListStub {
	m.t.Helper()
	var x *model.AllocListStub
	n.Eventually(harness.Patience, "data arrives", func() bool {
		list := m.server.Allocs(job, "pending")
		if len(list) != 1 {
			return false
		}
		x = list[0]
		_, err := os.Stat(n.Path(x.ID, "t/private/moved/alloc/data/big"))
		return err == nil
	})
	return x
}

func TestTheDataOfADrainedNodeGoesToTheOther(t *testing.T) {
	m := newMachines(t, "a", "b")
	m.server.Run(keeper("keeper", 20))
	first := m.keeps("keeper")
	m.server.Must("node", "drain", "-enable", "-yes", "-deadline", "5m", first.NodeID) // until it is complete
	// It is complete only when the data has left.
	next := m.server.Await("keeper", "running", 1)[0]
	if next.NodeID == first.NodeID {
		t.Fatal("it runs where it ran")
	}
	m.arrived(next, first.ID, 20)

	// And back, through a receiving agent that is killed in the middle.
	m.server.Must("node", "eligibility", "-enable", first.NodeID)
	m.server.Must("job", "stop", "-purge", "keeper")
	m.server.Run(keeper("slow", 1500))
	first = m.keeps("slow")
	to := m.other(first)
	m.server.Must("node", "drain", "-enable", "-yes", "-detach", "-deadline", "5m", first.NodeID)
	x := m.movesTo(to, "slow")
	m.server.Eventually(harness.Patience, "it says how far it is", func() bool {
		out, _ := m.server.CLI("alloc", "status", x.ID)
		return strings.Contains(out, `step "previous alloc's data"`) && strings.Contains(out, "Moving data")
	})
	to.Kill()
	to.Launch()
	m.server.Eventually(5*harness.Patience, "all the data has arrived, also on a loaded machine", func() bool {
		return len(m.server.Allocs("slow", "running")) == 1
	})
	next = m.server.Allocs("slow", "running")[0]
	if next.ID != x.ID {
		t.Errorf("alloc %s has taken the place of %s", next.ID, x.ID)
	}
	m.arrived(next, first.ID, 1500)
}

func TestAnAllocStartsWithoutItsDataIfTheNodeThatHasItIsLost(t *testing.T) {
	m := newMachines(t, "a", "b")
	m.server.Run(keeper("keeper", 600))
	first := m.keeps("keeper")
	from, to := m.nodes[first.NodeName], m.other(first)
	m.server.Must("node", "drain", "-enable", "-yes", "-detach", "-deadline", "5m", first.NodeID)
	x := m.movesTo(to, "keeper")
	from.Kill()
	next := m.server.Await("keeper", "running", 1)[0]
	if next.ID != x.ID {
		t.Errorf("alloc %s has taken the place of %s", next.ID, x.ID)
	}
	if out := m.server.Must("alloc", "status", x.ID); !strings.Contains(out, "was not moved, so the task starts without it") || !strings.Contains(out, "down") {
		t.Error(out)
	}
	if _, err := os.Stat(to.Path(x.ID, "t/private/moved")); err == nil {
		t.Error("a part of the data is left")
	}
	m.server.Eventually(harness.Patience, "the task begins anew", func() bool {
		out, _ := m.server.CLI("alloc", "logs", x.ID, "t")
		return strings.TrimSpace(out) == "not found"
	})
}

func TestANodeThatLeavesEndsWhenItsDataHasLeftAndSparesWhatItIsToSpare(t *testing.T) {
	m := newMachines(t, "a", "b")
	m.server.Run(keeper("keeper", 100))
	m.server.Run(harness.Shell("sys", "system", 1, "", "exec sleep 1000"))
	first := m.keeps("keeper")
	system := m.pids(m.server.Await("sys", "running", 2))
	from, to := m.nodes[first.NodeName], m.other(first)
	leave := func(a *agent, drain string, limit time.Duration) {
		t.Helper()
		a.Kill()
		a.Configure("leave_on_terminate = true\nclient {\n  drain_on_shutdown {\n" + drain + "\n  }\n}\n")
		a.Launch()
		m.connected()
		m.ready("a", "b")
		if err := a.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-a.Done:
		case <-time.After(limit):
			t.Fatalf("the agent does not end\n%s", a.Log())
		}
	}
	leave(from, "    deadline = \"5m\"\n    ignore_system_jobs = true", 2*harness.Patience)
	next := m.server.Await("keeper", "running", 1)[0]
	m.arrived(next, first.ID, 100)
	for alloc, pid := range system {
		if !harness.Running(pid) {
			t.Errorf("alloc %s of a system job has ended, and was to be ignored", alloc)
		}
	}
	// With force all ends at once, although there is no other node.
	from.Launch()
	m.connected()
	m.ready("a", "b")
	m.server.Must("node", "eligibility", "-disable", first.NodeID)
	keeperPID := m.pids([]*model.AllocListStub{next})
	leave(to, "    deadline = \"1h\"\n    force = true", 2*harness.Patience)
	for alloc, pid := range keeperPID {
		if harness.Running(pid) {
			t.Errorf("alloc %s runs on after a forced drain", alloc)
		}
	}
}
