// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// machines is a server and its nodes, each an agent on a machine of its own.
type machines struct {
	t       *testing.T
	network *harness.Network
	server  *agent
	nodes   map[string]*agent // by name
}

func newMachines(t *testing.T, names ...string) *machines {
	t.Helper()
	harness.TakeSlot(t)
	w := harness.NewNetwork(t)
	m := &machines{t: t, network: w, nodes: map[string]*agent{}}
	m.server = &agent{w.Machine("srv", "server {\n  enabled = true\n  bootstrap_expect = 1\n  plugin_registry = true\n  heartbeat_grace = \"0s\"\n}")}
	for _, name := range names { // the nodes start before the server
		m.nodes[name] = &agent{w.Machine(name, harness.NodeOf(m.server.Agent))}
		m.nodes[name].Launch()
	}
	first := m.nodes[names[0]]
	first.Eventually(15*time.Second, "a node says in its log that no server answers, and lives", func() bool {
		return strings.Contains(first.Log(), "no session with the servers; trying again") && strings.Contains(first.Log(), m.server.RPCAddress()) && first.Alive()
	})
	m.server.Launch()
	m.ready(names...)
	return m
}

// ready waits until exactly the named nodes are ready and can run tasks.
func (m *machines) ready(names ...string) {
	m.t.Helper()
	m.server.Eventually(20*time.Second, "ready are "+strings.Join(names, " "), func() bool {
		nodes, _, err := m.server.Nodes(m.server.Context(), nil)
		var got []string
		for _, n := range nodes {
			if d := n.Drivers["raw_exec"]; n.Status == model.NodeStatusReady && d != nil && d.Healthy {
				got = append(got, n.Name)
			}
		}
		slices.Sort(got)
		return err == nil && slices.Equal(got, names)
	})
}

// connected waits until every node has a session.
func (m *machines) connected() {
	m.t.Helper()
	for name, n := range m.nodes {
		n.Eventually(20*time.Second, name+" has a session again", func() bool {
			h, err := n.AgentSelf(n.Context())
			return err == nil && h.Stats["client"]["connected"] == "true"
		})
	}
}

// pids returns the process of each alloc of a job, one per node.
func (m *machines) pids(allocs []*model.AllocListStub) map[string]int {
	m.t.Helper()
	out := map[string]int{}
	for _, x := range allocs {
		maps.Copy(out, m.nodes[x.NodeName].PIDs([]*model.AllocListStub{x}))
	}
	return out
}

// unharmed checks that the same processes run, and no others.
func (m *machines) unharmed(job string, pids map[string]int) {
	m.t.Helper()
	now := m.pids(m.server.Await(job, "running", len(pids)))
	if !maps.Equal(now, pids) {
		m.t.Fatalf("the tasks run as %v, before as %v", now, pids)
	}
	if all := m.server.Allocs(job, ""); len(all) != len(pids) {
		m.t.Fatalf("%d allocs, want %d", len(all), len(pids))
	}
}

const spreadJob = `job "spread" {
  group "g" {
    count = 3
    constraint {
      distinct_hosts = true
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $$ > $NOMAD_TASK_DIR/pid; echo I am $NOMAD_ALLOC_ID; trap 'echo got hup' HUP; while :; do sleep 0.1; done"]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}`

func TestNodesOnOtherMachinesRunWhatTheServerAssignsAndAnyAgentAnswersForAll(t *testing.T) {
	m := newMachines(t, "a", "b", "c")
	m.nodes["b"].Run(spreadJob) // through a node
	allocs := m.server.Await("spread", "running", 3)
	pids := m.pids(allocs)
	if hosts := map[string]bool{allocs[0].NodeName: true, allocs[1].NodeName: true, allocs[2].NodeName: true}; len(hosts) != 3 {
		t.Fatalf("the allocs are on %v", hosts)
	}
	t.Run("each agent answers for the allocs of all", func(t *testing.T) { m.answersForAll(allocs) })
	t.Run("by every route about a node or an alloc", func(t *testing.T) { m.everyRoute(t, allocs[0]) })
	t.Run("and for itself", func(t *testing.T) { m.answersForItself() })
	pids = m.pids(allocs) // one task was restarted
	t.Run("tasks outlive the server, which knows them again", func(t *testing.T) { m.serverDies(pids, allocs) })
	t.Run("tasks outlive the agents of nodes", func(t *testing.T) {
		for _, name := range []string{"a", "c"} {
			m.nodes[name].Kill()
		}
		for _, name := range []string{"a", "c"} {
			m.nodes[name].Launch()
		}
		m.connected()
		m.ready("a", "b", "c")
		m.unharmed("spread", pids)
	})
}

func (m *machines) answersForAll(allocs []*model.AllocListStub) {
	t := m.t
	for _, x := range allocs {
		signals := 0
		for _, asked := range []*agent{m.server, m.nodes["a"], m.nodes["b"]} {
			if out := asked.Must("alloc", "logs", x.ID, "t"); !strings.Contains(out, "I am "+x.ID) {
				t.Errorf("logs: %s", out)
			}
			if out := asked.Must("alloc", "fs", x.ID, "t/local/pid"); strings.TrimSpace(out) == "" {
				t.Errorf("fs: %q", out)
			}
			if out, code := asked.CLI("alloc", "exec", "-task", "t", x.ID, "/bin/sh", "-c", "echo $NOMAD_ALLOC_ID; exit 4"); code != 4 || strings.TrimSpace(out) != x.ID {
				t.Errorf("exec: exit code %d, %s", code, out)
			}
			asked.Must("alloc", "signal", "-s", "SIGHUP", x.ID, "t")
			signals++ // one at a time, because a shell merges two pending signals
			m.server.Eventually(harness.Patience, "the signal arrives", func() bool {
				return strings.Count(m.server.Must("alloc", "logs", x.ID, "t"), "got hup") == signals
			})
		}
	}
	a := m.nodes["a"]
	if out := a.Must("node", "status"); strings.Count(out, "ready") != 3 {
		t.Errorf("node status: %s", out)
	}
	// A blocking query through a node ends when something changes.
	_, meta, err := a.Jobs(a.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan error, 1)
	go func() {
		_, _, err := a.Jobs(a.Context(), &client.Query{WaitIndex: meta.Index, WaitTime: 5 * time.Minute})
		changed <- err
	}()
	m.server.Run(harness.Shell("other", "batch", 1, "", "true"))
	select {
	case err := <-changed:
		if err != nil {
			t.Errorf("the long poll: %v", err)
		}
	case <-time.After(harness.Patience):
		t.Error("the long poll does not end")
	}
	m.server.Await("other", "complete", 1)
	m.server.Must("job", "stop", "-purge", "other")
}

func (m *machines) answersForItself() {
	t := m.t
	for _, asked := range []*agent{m.server, m.nodes["a"]} {
		if out := asked.Must("server", "members"); !strings.Contains(out, "srv.global") || !strings.Contains(out, "true") || strings.Count(out, ".global") != 1 || !strings.Contains(out, "without TLS") {
			t.Errorf("server members: %s", out)
		}
		for path, says := range map[string]string{
			"/v1/agent/servers": `["` + m.server.RPCAddress() + `"]`, "/v1/status/leader": `"` + m.server.RPCAddress() + `"`,
		} {
			if code, body := asked.HTTPGet(path); code != 200 || body != says {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
	}
	self, err := m.nodes["a"].AgentSelf(m.nodes["a"].Context())
	if err != nil || self.Stats["client"]["known_servers"] != m.server.RPCAddress() || self.Stats["nomad"] != nil || self.Member.Name != "" {
		t.Errorf("a node says of itself %+v, %v", self, err)
	}
	self, err = m.server.AgentSelf(m.server.Context())
	if err != nil || self.Stats["nomad"]["leader"] != "true" || self.Stats["client"] != nil || self.Member.Name != "srv.global" {
		t.Errorf("the server says of itself %+v, %v", self, err)
	}
	if code, body := m.server.HTTPGet("/v1/client/stats"); code != 400 || !strings.Contains(body, "this agent is not a node") {
		t.Errorf("stats of a server: %d %s", code, body)
	}
	m.nodes["b"].Eventually(harness.Patience, "a node counts its alloc, and nothing of servers", func() bool {
		code, body := m.nodes["b"].HTTPGet("/v1/metrics")
		return code == 200 && strings.Contains(body, `"nomad.client.allocations.running","Value":1`) && !strings.Contains(body, "nomad.nomad.broker")
	})
}

func (m *machines) serverDies(pids map[string]int, allocs []*model.AllocListStub) {
	t := m.t
	m.server.Kill()
	a := m.nodes["a"]
	a.Eventually(10*time.Second, "a node says that no server answers", func() bool {
		code, body := a.HTTPGet("/v1/jobs")
		return code == 500 && strings.Contains(body, "no server answers at "+m.server.RPCAddress())
	})
	for _, x := range allocs {
		if x.NodeName != "a" {
			continue
		}
		if code, body := a.HTTPGet("/v1/client/fs/cat/" + x.ID + "?path=t/local/pid"); code != 200 || strings.TrimSpace(body) != strconv.Itoa(pids[x.ID]) {
			t.Errorf("its own alloc meanwhile: %d %s", code, body)
		}
	}
	m.server.Launch()
	m.connected()
	m.ready("a", "b", "c")
	m.unharmed("spread", pids)
	for _, x := range allocs {
		if out := m.server.Must("alloc", "logs", x.ID, "t"); !strings.Contains(out, "I am "+x.ID) {
			t.Errorf("logs afterwards: %s", out)
		}
	}
}

func TestATaskGoesOnThroughALostNetworkAndItsAllocIsKnownAgain(t *testing.T) {
	m := newMachines(t, "a", "b")
	m.server.Run(harness.Shell("patient", "service", 1, `disconnect {
      lost_after = "5m"
      replace    = false
    }`, "while :; do sleep 0.1; done"))
	x := m.server.Await("patient", "running", 1)
	pids := m.pids(x)
	cut, left := x[0].NodeName, "b"
	if cut == left {
		left = "a"
	}
	m.network.Link(m.nodes[cut].Agent, "down")
	m.server.Await("patient", "unknown", 1) // the node announces nothing: the server misses its heartbeats
	m.ready(left)
	if out, code := m.nodes[left].CLI("alloc", "exec", "-task", "t", x[0].ID, "true"); code != 1 || !strings.Contains(out, "No path to node") && !strings.Contains(out, "broke off") {
		t.Errorf("exec on a node that is cut off: exit code %d, %s", code, out)
	}
	m.network.Link(m.nodes[cut].Agent, "up")
	m.ready("a", "b")
	m.unharmed("patient", pids)
}
