// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/e2e/harness"
)

// serverFile returns the path of a file of the agent's server.
func (a *agent) serverFile(name string) string { return filepath.Join(a.Data, "server", name) }

func (a *agent) remove(paths ...string) {
	a.T.Helper()
	for _, p := range paths {
		if err := os.RemoveAll(p); err != nil {
			a.T.Fatal(err)
		}
	}
}

func (a *agent) copyTree(from, to string) {
	a.T.Helper()
	a.remove(to)
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		a.T.Fatalf("%v: %s", err, out)
	}
}

// says waits for a text in the agent's log.
func (a *agent) says(words string) {
	a.T.Helper()
	a.Eventually(20*time.Second, "the log says: "+words, func() bool { return strings.Contains(a.Log(), words) })
}

// standing waits until the node's trust in its servers is as wanted.
func (a *agent) standing(want string) {
	a.T.Helper()
	a.Eventually(20*time.Second, "the node's servers are "+want, func() bool {
		c, err := a.NodeCluster(a.Context(), "")
		return err == nil && c.Standing == want
	})
}

// live returns the number of processes that run.
func live(pids map[string]int) (n int) {
	for _, pid := range pids {
		if harness.Running(pid) {
			n++
		}
	}
	return n
}

// stay checks for some seconds that every process keeps running. This is more than
// ten times as long as an assignment takes to reach a node.
func (a *agent) stay(pids map[string]int) {
	a.T.Helper()
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if n := live(pids); n != len(pids) {
			a.T.Fatalf("%d of %d tasks run", n, len(pids))
		}
	}
}

func TestHostileAServerWhoseDataIsGoneEndsNoTaskUntilAnOperatorAgrees(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("kept", "service", 3, harness.Quick, "echo $$ > $NOMAD_TASK_DIR/pid; exec sleep 600"))
	pids := a.PIDs(a.Await("kept", "running", 3))
	a.terminate()
	a.copyTree(a.serverFile("raft"), filepath.Join(a.Dir, "raft"))
	a.copyTree(a.serverFile("server-id"), filepath.Join(a.Dir, "server-id"))
	a.remove(a.serverFile("raft"), a.serverFile("server-id"))
	a.Launch()
	a.says("run `drover node trust` on its machine")
	a.standing("refused")
	a.stay(pids)
	a.terminate()
	a.Launch() // another start changes nothing
	a.standing("refused")
	a.stay(pids)
	if out := a.Must("node", "trust", "-status"); !strings.Contains(out, "refused") {
		t.Errorf("the state of the node: %s", out)
	}

	a.terminate() // the operator restores the data
	a.copyTree(filepath.Join(a.Dir, "raft"), a.serverFile("raft"))
	a.copyTree(filepath.Join(a.Dir, "server-id"), a.serverFile("server-id"))
	a.start()
	a.standing("believed")
	if now := a.PIDs(a.Await("kept", "running", 3)); !maps.Equal(now, pids) {
		t.Fatalf("the tasks run as %v, before as %v", now, pids)
	}

	a.terminate() // or does not
	a.remove(a.serverFile("raft"), a.serverFile("server-id"))
	a.Launch()
	a.standing("refused")
	a.Must("node", "trust")
	a.Eventually(20*time.Second, "what the cluster does not know is stopped", func() bool { return live(pids) == 0 })
	a.standing("believed")
	a.Run(harness.Shell("new", "service", 1, harness.Quick, "exec sleep 600"))
	a.Await("new", "running", 1)
}

func TestHostileAnOlderCopyOfAServersDataEndsNoTaskUntilAnOperatorAgrees(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("kept", "service", 2, harness.Quick, "echo $$ > $NOMAD_TASK_DIR/pid; exec sleep 600"))
	pids := a.PIDs(a.Await("kept", "running", 2))
	a.terminate()
	a.copyTree(a.serverFile("raft"), filepath.Join(a.Dir, "raft"))
	a.start()
	a.Run(harness.Shell("later", "service", 3, harness.Quick, "echo $$ > $NOMAD_TASK_DIR/pid; exec sleep 600"))
	later := a.PIDs(a.Await("later", "running", 3))
	a.terminate()
	a.copyTree(filepath.Join(a.Dir, "raft"), a.serverFile("raft"))
	a.start()
	a.says("an older copy of their data was put back")
	a.standing("doubted")
	a.Run(harness.Shell("beside", "service", 1, harness.Quick, "exec sleep 600")) // the log grows beyond the position that the node has seen
	a.Await("beside", "running", 1)
	a.stay(later)
	a.terminate()
	a.start()
	a.standing("doubted")
	a.stay(later)
	if now := a.PIDs(a.Await("kept", "running", 2)); !maps.Equal(now, pids) {
		t.Fatalf("the tasks that both know run as %v, before as %v", now, pids)
	}
	if out := a.Must("node", "trust", "-all", "-yes"); !strings.Contains(out, "trusts them now") {
		t.Errorf("of all nodes it is said:\n%s", out)
	}
	a.Eventually(20*time.Second, "what the servers do not know is stopped", func() bool { return live(later) == 0 })
	if live(pids) != 2 {
		t.Error("what they know was stopped, too")
	}
}
