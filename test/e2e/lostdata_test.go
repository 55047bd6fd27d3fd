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
)

// serverFile returns the path of a file of the agent's server.
func (a *agent) serverFile(name string) string { return filepath.Join(a.data, "server", name) }

func (a *agent) remove(paths ...string) {
	a.t.Helper()
	for _, p := range paths {
		if err := os.RemoveAll(p); err != nil {
			a.t.Fatal(err)
		}
	}
}

func (a *agent) copyTree(from, to string) {
	a.t.Helper()
	a.remove(to)
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		a.t.Fatalf("%v: %s", err, out)
	}
}

// says waits for a text in the agent's log.
func (a *agent) says(words string) {
	a.t.Helper()
	a.eventually(20*time.Second, "the log says: "+words, func() bool { return strings.Contains(a.log(), words) })
}

// standing waits until the node's trust in its servers is as wanted.
func (a *agent) standing(want string) {
	a.t.Helper()
	a.eventually(20*time.Second, "the node's servers are "+want, func() bool {
		c, err := a.NodeCluster(a.ctx(), "")
		return err == nil && c.Standing == want
	})
}

// live returns the number of processes that run.
func live(pids map[string]int) (n int) {
	for _, pid := range pids {
		if running(pid) {
			n++
		}
	}
	return n
}

// stay checks for some seconds that every process keeps running. This is more than
// ten times as long as an assignment takes to reach a node.
func (a *agent) stay(pids map[string]int) {
	a.t.Helper()
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if n := live(pids); n != len(pids) {
			a.t.Fatalf("%d of %d tasks run", n, len(pids))
		}
	}
}

func TestHostileAServerWhoseDataIsGoneEndsNoTaskUntilAnOperatorAgrees(t *testing.T) {
	a := newAgent(t).start()
	a.run(shell("kept", "service", 3, quick, "echo $$ > $NOMAD_TASK_DIR/pid; exec sleep 600"))
	pids := a.pids(a.await("kept", "running", 3))
	a.terminate()
	a.copyTree(a.serverFile("raft"), filepath.Join(a.dir, "raft"))
	a.copyTree(a.serverFile("server-id"), filepath.Join(a.dir, "server-id"))
	a.remove(a.serverFile("raft"), a.serverFile("server-id"))
	a.launch()
	a.says("run `drover node trust` on its machine")
	a.standing("refused")
	a.stay(pids)
	a.terminate()
	a.launch() // another start changes nothing
	a.standing("refused")
	a.stay(pids)
	if out := a.must("node", "trust", "-status"); !strings.Contains(out, "refused") {
		t.Errorf("the state of the node: %s", out)
	}

	a.terminate() // the operator restores the data
	a.copyTree(filepath.Join(a.dir, "raft"), a.serverFile("raft"))
	a.copyTree(filepath.Join(a.dir, "server-id"), a.serverFile("server-id"))
	a.start()
	a.standing("believed")
	if now := a.pids(a.await("kept", "running", 3)); !maps.Equal(now, pids) {
		t.Fatalf("the tasks run as %v, before as %v", now, pids)
	}

	a.terminate() // or does not
	a.remove(a.serverFile("raft"), a.serverFile("server-id"))
	a.launch()
	a.standing("refused")
	a.must("node", "trust")
	a.eventually(20*time.Second, "what the cluster does not know is stopped", func() bool { return live(pids) == 0 })
	a.standing("believed")
	a.run(shell("new", "service", 1, quick, "exec sleep 600"))
	a.await("new", "running", 1)
}

func TestHostileAnOlderCopyOfAServersDataEndsNoTaskUntilAnOperatorAgrees(t *testing.T) {
	a := newAgent(t).start()
	a.run(shell("kept", "service", 2, quick, "echo $$ > $NOMAD_TASK_DIR/pid; exec sleep 600"))
	pids := a.pids(a.await("kept", "running", 2))
	a.terminate()
	a.copyTree(a.serverFile("raft"), filepath.Join(a.dir, "raft"))
	a.start()
	a.run(shell("later", "service", 3, quick, "echo $$ > $NOMAD_TASK_DIR/pid; exec sleep 600"))
	later := a.pids(a.await("later", "running", 3))
	a.terminate()
	a.copyTree(filepath.Join(a.dir, "raft"), a.serverFile("raft"))
	a.start()
	a.says("an older copy of their data was put back")
	a.standing("doubted")
	a.run(shell("beside", "service", 1, quick, "exec sleep 600")) // the log grows beyond the position that the node has seen
	a.await("beside", "running", 1)
	a.stay(later)
	a.terminate()
	a.start()
	a.standing("doubted")
	a.stay(later)
	if now := a.pids(a.await("kept", "running", 2)); !maps.Equal(now, pids) {
		t.Fatalf("the tasks that both know run as %v, before as %v", now, pids)
	}
	if out := a.must("node", "trust", "-all", "-yes"); !strings.Contains(out, "trusts them now") {
		t.Errorf("of all nodes it is said:\n%s", out)
	}
	a.eventually(20*time.Second, "what the servers do not know is stopped", func() bool { return live(later) == 0 })
	if live(pids) != 2 {
		t.Error("what they know was stopped, too")
	}
}
