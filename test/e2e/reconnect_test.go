// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// patient returns a job whose alloc prefers node "a" and waits for that node when it
// is disconnected. On other nodes its task starts when the file open/ID exists.
func patient(id, kind, dir, disconnect, script string) string {
	return fmt.Sprintf(`job %q {
  type = %q
  group "g" {
    disconnect {
      lost_after = "10m"
      %s
    }
    %s
    task "gate" {
      driver = "raw_exec"
      lifecycle {
        hook = "prestart"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "until [ $${node.unique.name} = a ] || [ -e %s/open/%s ]; do sleep 0.1; done"]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}`, id, kind, disconnect, placedOnA(kind), dir, id, "echo $$ > $NOMAD_TASK_DIR/pid; "+script)
}

func placedOnA(kind string) string {
	if kind == "system" {
		return ""
	}
	fails := strings.Replace(harness.OnlyOnce, "attempts  = 0\n      unlimited = false", "delay          = \"5s\"\n      delay_function = \"constant\"\n      unlimited      = true", 1)
	return fails + `affinity {
      attribute = "${node.unique.name}"
      value     = "a"
      weight    = 100
    }`
}

const forever = "while :; do sleep 0.1; done"

// pairOf returns the first alloc of a job on node "a" and the newest one on another
// node; nil if there is none.
func (m *machines) pairOf(job string) (original, replacement *model.AllocListStub) {
	for _, x := range m.server.Allocs(job, "") {
		switch {
		case x.NodeName == "a":
			if original == nil || x.CreateIndex < original.CreateIndex {
				original = x
			}
		case replacement == nil || x.CreateIndex > replacement.CreateIndex:
			replacement = x
		}
	}
	return original, replacement
}

// begin runs jobs and waits until each runs on node "a". It returns their processes.
func (m *machines) begin(jobs map[string]string) map[string]int {
	m.t.Helper()
	pids := map[string]int{}
	for _, hcl := range jobs {
		m.server.Run(hcl)
	}
	for id := range jobs {
		m.server.Eventually(30*time.Second, id+" runs", func() bool {
			x, _ := m.pairOf(id)
			if x == nil || x.TaskStates["t"] == nil || x.TaskStates["t"].State != model.TaskStateRunning {
				return false
			}
			pids[id] = m.pid(x)
			return pids[id] > 0
		})
	}
	return pids
}

// pid returns the process of an alloc's task, or 0 if it does not run.
func (m *machines) pid(x *model.AllocListStub) int {
	b, _ := os.ReadFile(m.nodes[x.NodeName].Path(x.ID, "t/local/pid"))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && harness.Running(pid) {
		return pid
	}
	return 0
}

// replaced waits until the job's alloc on "a" is unknown and a replacement runs,
// including its task if starts is true.
func (m *machines) replaced(job string, starts bool) (pid int) {
	m.t.Helper()
	m.server.Eventually(30*time.Second, job+" is replaced", func() bool {
		x, y := m.pairOf(job)
		if x.ClientStatus != model.AllocClientStatusUnknown || y == nil || y.ClientStatus != model.AllocClientStatusRunning {
			return false
		}
		pid = m.pid(y)
		return !starts || pid > 0 && y.TaskStates["t"].State == model.TaskStateRunning
	})
	return pid
}

// settled waits until both allocs of a job have the given status. It checks that the
// remaining process is the same as before and that there are no other allocs.
func (m *machines) settled(job, original, replacement string, pid int) {
	m.t.Helper()
	m.server.Eventually(30*time.Second, fmt.Sprintf("%s: the original is %s and the replacement %s", job, original, replacement), func() bool {
		x, y := m.pairOf(job)
		return x.ClientStatus == original && y.ClientStatus == replacement
	})
	if !harness.Running(pid) {
		m.t.Errorf("%s: the process that was to stay is gone", job)
	}
	if all := m.server.Allocs(job, ""); len(all) != 2 {
		m.t.Errorf("%s: %d allocs", job, len(all))
	}
}

func (a *agent) touch(name string) { a.Write(name, 0o600, "") }

func TestOfAnAllocOutOfReachAndItsReplacementTheOneThatIsWantedStays(t *testing.T) {
	m := newMachines(t, "a", "b")
	dir := m.server.Dir
	jobs := map[string]string{
		"sys":  patient("sys", "system", dir, "", forever),
		"wait": patient("wait", "service", dir, "replace = false", forever),
	}
	modes := []string{"keep_original", "keep_replacement", "best_score", "longest_running"}
	for _, mode := range modes {
		for _, order := range []string{"early", "late"} { // the node reconnects before, or after, the replacement runs
			id := mode + "-" + order
			jobs[id] = patient(id, "service", dir, "reconcile = \""+mode+"\"", forever)
		}
		m.server.touch("open/" + mode + "-late")
	}
	m.server.touch("open/sys")
	pids := m.begin(jobs)

	m.network.Link(m.nodes["a"].Agent, "down")
	heirs := map[string]int{}
	for _, mode := range modes {
		heirs[mode+"-early"], heirs[mode+"-late"] = m.replaced(mode+"-early", false), m.replaced(mode+"-late", true)
	}
	m.server.Await("wait", "unknown", 1)
	m.server.Await("sys", "unknown", 1)
	m.network.Link(m.nodes["a"].Agent, "up")
	m.ready("a", "b")

	for _, mode := range []string{"keep_original", "best_score", "longest_running"} {
		for _, order := range []string{"-early", "-late"} {
			m.settled(mode+order, "running", "complete", pids[mode+order])
		}
	}
	m.settled("keep_replacement-late", "complete", "running", heirs["keep_replacement-late"])
	m.settled("keep_replacement-early", "running", "running", pids["keep_replacement-early"]) // until the replacement runs
	m.server.touch("open/keep_replacement-early")
	m.server.Eventually(20*time.Second, "the replacement runs, and the original never ended before", func() bool {
		_, y := m.pairOf("keep_replacement-early")
		heirs["keep_replacement-early"] = m.pid(y)
		if heirs["keep_replacement-early"] == 0 && !harness.Running(pids["keep_replacement-early"]) {
			t.Fatal("neither of the two runs")
		}
		return heirs["keep_replacement-early"] > 0
	})
	m.settled("keep_replacement-early", "complete", "running", heirs["keep_replacement-early"])

	m.server.Await("sys", "running", 2)
	m.server.Await("wait", "running", 1)
	for _, id := range []string{"sys", "wait"} {
		x, _ := m.pairOf(id)
		if m.pid(x) != pids[id] {
			t.Errorf("%s: the task that went on is not the one that runs", id)
		}
		m.server.Eventually(20*time.Second, id+" has an event of the reconnect", func() bool { // the event may come with the next report
			return strings.Contains(m.server.Must("alloc", "status", x.ID), "Reconnected")
		})
	}
	t.Run("and when it fails later it is replaced", func(t *testing.T) { m.failsLater(t, pids, "wait", "keep_original-late") })
}

// failsLater ends the tasks of allocs that were disconnected once.
func (m *machines) failsLater(t *testing.T, pids map[string]int, jobs ...string) {
	for _, id := range jobs {
		m.server.touch("open/" + id)
		if err := syscall.Kill(pids[id], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range jobs {
		m.server.Await(id, "failed", 1)
		m.server.Eventually(30*time.Second, id+" runs again", func() bool {
			for _, x := range m.server.Allocs(id, "running") {
				if pid := m.pid(x); pid > 0 && pid != pids[id] {
					return true
				}
			}
			return false
		})
	}
}

func TestWhatHappenedWhileANodeWasOutOfReachCounts(t *testing.T) {
	m := newMachines(t, "a", "b")
	dir := m.server.Dir
	until := func(id string, code int) string { // its task on node "a" ends when the test creates a file
		return fmt.Sprintf("echo > %s/runs/%s-$NOMAD_ALLOC_ID; until [ ${node.unique.name} = a ] && [ -e %s/end/%s ]; do sleep 0.1; done; exit %d", dir, id, dir, id, code)
	}
	m.server.touch("runs/none")
	for _, id := range []string{"fails", "done", "goes-on"} {
		m.server.touch("open/" + id)
	}
	keep := `reconcile = "keep_original"`
	pids := m.begin(map[string]string{
		"fails":   patient("fails", "service", dir, keep, until("fails", 1)),
		"done":    patient("done", "batch", dir, keep, until("done", 0)),
		"goes-on": patient("goes-on", "service", dir, keep, forever),
	})
	m.network.Link(m.nodes["a"].Agent, "down")
	fails := m.replaced("fails", true)
	m.replaced("done", true)
	second := m.replaced("goes-on", true)
	for _, id := range []string{"fails", "done"} {
		m.server.touch("end/" + id)
		m.server.Eventually(10*time.Second, id+" has ended", func() bool { return !harness.Running(pids[id]) })
	}
	m.server.Kill() // the server remembers it over a restart
	m.server.Launch()
	m.server.Eventually(20*time.Second, "the server leads again", func() bool {
		x, _ := m.pairOf("goes-on")
		return x != nil && x.ClientStatus == model.AllocClientStatusUnknown
	})
	m.network.Link(m.nodes["a"].Agent, "up")
	m.ready("a", "b")
	m.settled("fails", "failed", "running", fails)
	m.settled("goes-on", "running", "complete", pids["goes-on"])
	m.server.Await("done", "complete", 2)
	if runs, _ := filepath.Glob(filepath.Join(dir, "runs/done-*")); len(runs) != 2 {
		t.Errorf("the batch work was begun %d times", len(runs))
	}
	if harness.Running(second) {
		t.Error("two run in one place")
	}
}
