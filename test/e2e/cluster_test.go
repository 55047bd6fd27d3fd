// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
)

// machines is one server and its nodes, an agent on a machine of its own each.
type machines struct {
	t      *testing.T
	server *agent
	nodes  map[string]*agent // by name
}

func newMachines(t *testing.T, names ...string) *machines {
	t.Helper()
	t.Parallel()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	w := newNetwork(t)
	m := &machines{t: t, nodes: map[string]*agent{}}
	m.server = w.machine("srv", "server {\n  enabled = true\n  bootstrap_expect = 1\n  plugin_registry = true\n}")
	for _, name := range names { // before there is a server
		m.nodes[name] = w.machine(name, nodeOf(m.server))
		m.nodes[name].launch()
	}
	first := m.nodes[names[0]]
	first.eventually(15*time.Second, "a node says in its log that no server answers, and lives", func() bool {
		return strings.Contains(first.log(), "no session with the servers; trying again") && strings.Contains(first.log(), m.server.at()) && first.alive()
	})
	m.server.launch()
	m.ready(names...)
	return m
}

// ready waits until exactly the named nodes are ready and can run tasks.
func (m *machines) ready(names ...string) {
	m.t.Helper()
	m.server.eventually(20*time.Second, "ready are "+strings.Join(names, " "), func() bool {
		nodes, _, err := m.server.Nodes(m.server.ctx(), nil)
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
		n.eventually(20*time.Second, name+" has a session again", func() bool {
			h, err := n.AgentSelf(n.ctx())
			return err == nil && h.Stats["client"]["connected"] == "true"
		})
	}
}

// pids are the processes of a job's allocs by alloc, one on each node.
func (m *machines) pids(allocs []*model.AllocListStub) map[string]int {
	m.t.Helper()
	out := map[string]int{}
	for _, x := range allocs {
		maps.Copy(out, m.nodes[x.NodeName].pids([]*model.AllocListStub{x}))
	}
	return out
}

// unharmed checks that the same processes run, and nothing beside them.
func (m *machines) unharmed(job string, pids map[string]int) {
	m.t.Helper()
	now := m.pids(m.server.await(job, "running", len(pids)))
	if !maps.Equal(now, pids) {
		m.t.Fatalf("the tasks run as %v, before as %v", now, pids)
	}
	if all := m.server.allocs(job, ""); len(all) != len(pids) {
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
	m.nodes["b"].run(spreadJob) // through a node
	allocs := m.server.await("spread", "running", 3)
	pids := m.pids(allocs)
	if hosts := map[string]bool{allocs[0].NodeName: true, allocs[1].NodeName: true, allocs[2].NodeName: true}; len(hosts) != 3 {
		t.Fatalf("the allocs are on %v", hosts)
	}
	t.Run("each agent answers for the allocs of all", func(t *testing.T) { m.answersForAll(allocs) })
	t.Run("by every route about a node or an alloc", func(t *testing.T) { m.everyRoute(t, allocs[0]) })
	t.Run("and for itself", func(t *testing.T) { m.answersForItself() })
	pids = m.pids(allocs) // one was restarted
	t.Run("tasks outlive the server, which knows them again", func(t *testing.T) { m.serverDies(pids, allocs) })
	t.Run("tasks outlive the agents of nodes", func(t *testing.T) {
		for _, name := range []string{"a", "c"} {
			m.nodes[name].kill()
		}
		for _, name := range []string{"a", "c"} {
			m.nodes[name].launch()
		}
		m.connected()
		m.ready("a", "b", "c")
		m.unharmed("spread", pids)
	})
}

func (m *machines) answersForAll(allocs []*model.AllocListStub) {
	t := m.t
	for _, x := range allocs {
		for _, asked := range []*agent{m.server, m.nodes["a"], m.nodes["b"]} {
			if out := asked.must("alloc", "logs", x.ID, "t"); !strings.Contains(out, "I am "+x.ID) {
				t.Errorf("logs: %s", out)
			}
			if out := asked.must("alloc", "fs", x.ID, "t/local/pid"); strings.TrimSpace(out) == "" {
				t.Errorf("fs: %q", out)
			}
			if out, code := asked.cli("alloc", "exec", "-task", "t", x.ID, "/bin/sh", "-c", "echo $NOMAD_ALLOC_ID; exit 4"); code != 4 || strings.TrimSpace(out) != x.ID {
				t.Errorf("exec: exit code %d, %s", code, out)
			}
			asked.must("alloc", "signal", "-s", "SIGHUP", x.ID, "t")
		}
		m.server.eventually(10*time.Second, "the signals arrive", func() bool {
			return strings.Count(m.server.must("alloc", "logs", x.ID, "t"), "got hup") >= 1
		})
	}
	a := m.nodes["a"]
	if out := a.must("node", "status"); strings.Count(out, "ready") != 3 {
		t.Errorf("node status: %s", out)
	}
	// A long poll through a node ends when something changes.
	_, meta, err := a.Jobs(a.ctx(), nil)
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan error, 1)
	go func() {
		_, _, err := a.Jobs(a.ctx(), &client.Query{WaitIndex: meta.Index, WaitTime: time.Minute})
		changed <- err
	}()
	m.server.run(shell("other", "batch", 1, "", "true"))
	select {
	case err := <-changed:
		if err != nil {
			t.Errorf("the long poll: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the long poll does not end")
	}
	m.server.await("other", "complete", 1)
	m.server.must("job", "stop", "-purge", "other")
}

// everyRoute asks the server, the node of an alloc and another node the same.
func (m *machines) everyRoute(t *testing.T, x *model.AllocListStub) {
	own := m.nodes[x.NodeName]
	other := m.nodes["a"]
	if own == other {
		other = m.nodes["b"]
	}
	node, alloc := "node_id="+x.NodeID, x.ID
	get := func(a *agent, path string) string {
		code, body := a.get(path)
		return fmt.Sprintf("%d %s", code, body)
	}
	for path, says := range map[string]string{ // what is the same however often it is asked
		"/v1/client/fs/ls/" + alloc + "?path=t/local":                          `200 [{"Name":"pid"`,
		"/v1/client/fs/stat/" + alloc + "?path=t/local/pid":                    `200 {"Name":"pid"`,
		"/v1/client/fs/cat/" + alloc + "?path=t/local/pid":                     "200 ",
		"/v1/client/fs/readat/" + alloc + "?path=t/local/pid&offset=0&limit=1": "200 ",
		"/v1/client/fs/stream/" + alloc + "?path=t/local/pid&follow=false":     `200 {"Offset":6,"Data":`,
		"/v1/client/fs/logs/" + alloc + "?task=t&type=stdout&plain=true":       "200 I am " + alloc,
		"/v1/client/fs/ls/" + alloc + "?path=none":                             "500 ",
		"/v1/client/fs/ls/" + alloc + "?path=../../../../etc":                  "500 Path escapes",
		"/v1/client/fs/cat/00000000-0000-0000-0000-000000000000?path=/":        "404 ",
		"/v1/client/allocation/" + alloc + "/checks":                           "200 {}",
		"/v1/client/metadata?" + node:                                          `200 {"Meta":{}`,
		"/v1/agent/plugins?" + node:                                            `200 [{"Name":"driver-exec"`,
		"/v1/agent/plugin/driver-exec?" + node:                                 `200 {"Name":"driver-exec"`,
		"/v1/agent/plugin/none?" + node:                                        "404 ",
		"/v1/agent/pprof/cmdline?" + node:                                      "200 " + filepath.Join(bin, "drover"),
		"/v1/agent/pprof/none?" + node:                                         "404 ",
		"/v1/agent/monitor/export?on_disk=true&" + node:                        "500 this agent writes no log file",
		"/v1/agent/monitor?log_level=loud&" + node:                             "400 Unknown log level",
		"/v1/agent/monitor/export?on_disk=true&" + node + "&server_id=leader":  "400 Cannot target",
		"/v1/client/stats?node_id=00000000-0000-0000-0000-000000000000":        "404 ",
		"/v1/agent/monitor?node_id=00000000-0000-0000-0000-000000000000":       "404 ",
		"/v1/agent/monitor/export?on_disk=true&server_id=leader":               "500 this agent writes no log file",
	} {
		want := get(own, path)
		if !strings.HasPrefix(want, says) {
			t.Errorf("%s: its node says %.200s, want %s", path, want, says)
		}
		for name, a := range map[string]*agent{"the server": m.server, "another node": other} {
			if got := get(a, path); got != want {
				t.Errorf("%s: %s says %.300s, its node %.300s", path, name, got, want)
			}
		}
	}
	m.liveRoutes(t, x, map[string]*agent{"its node": own, "the server": m.server, "another node": other})
}

// liveRoutes are those whose answer is another each time, or that change something.
func (m *machines) liveRoutes(t *testing.T, x *model.AllocListStub, asked map[string]*agent) {
	node := "node_id=" + x.NodeID
	for name, a := range asked {
		for path, says := range map[string]string{
			"/v1/client/stats?" + node:                  `"Memory":{`,
			"/v1/client/allocation/" + x.ID + "/stats":  `"ResourceUsage":{`,
			"/v1/agent/host?" + node:                    `{"AgentID":"` + x.NodeID + `"`,
			"/v1/agent/pprof/goroutine?debug=1&" + node: "goroutine profile:",
			"/v1/client/gc?" + node:                     "",
			"/v1/agent/health?type=client":              "",
		} {
			m.server.eventually(15*time.Second, path+" answered by "+name, func() bool { // figures come when they are wanted
				code, body := a.get(path)
				return (code == 200 || a == m.server && strings.HasPrefix(path, "/v1/agent/health")) && strings.Contains(body, says)
			})
		}
		if out := a.must("node", "meta", "apply", "-node-id", x.NodeID, "asked="+strings.ReplaceAll(name, " ", "-")); !strings.Contains(a.must("node", "meta", "read", "-node-id", x.NodeID), strings.ReplaceAll(name, " ", "-")) {
			t.Errorf("metadata by %s: %s", name, out)
		}
		if out := a.must("node", "status", "-stats", "-verbose", x.NodeID); !strings.Contains(out, "driver-exec") || strings.Contains(out, "retrieve stats") {
			t.Errorf("node status by %s: %s", name, out)
		}
		if out := a.must("alloc", "status", "-stats", x.ID); strings.Contains(out, "retrieve stats") {
			t.Errorf("alloc status by %s: %s", name, out)
		}
		m.monitors(t, name, a, x)
	}
	a := asked["another node"]
	a.must("alloc", "restart", x.ID, "t")
	m.server.eventually(15*time.Second, "the task was restarted", func() bool {
		y, _, err := a.Allocation(a.ctx(), x.ID, nil)
		return err == nil && y.TaskStates["t"].Restarts == 1 && y.TaskStates["t"].State == "running"
	})
	a.must("node", "meta", "apply", "-node-id", x.NodeID, "-unset", "asked")
}

// monitors reads the log of the alloc's node as it is written.
func (m *machines) monitors(t *testing.T, name string, a *agent, x *model.AllocListStub) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", a.addr+"/v1/agent/monitor?plain=true&log_level=debug&node_id="+x.NodeID, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if code, _ := m.nodes[x.NodeName].get("/v1/client/fs/ls/" + x.ID + "?path=none"); code != 500 {
		t.Errorf("a file that is not there: %d", code)
	}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "request failed") && strings.Contains(lines.Text(), x.ID) {
			return
		}
	}
	t.Errorf("the log of a node by %s does not show its request: %v", name, lines.Err())
}

func (m *machines) answersForItself() {
	t := m.t
	for _, asked := range []*agent{m.server, m.nodes["a"]} {
		if out := asked.must("server", "members"); !strings.Contains(out, "srv.global") || !strings.Contains(out, "true") || strings.Count(out, "\n") != 2 {
			t.Errorf("server members: %s", out)
		}
		for path, says := range map[string]string{
			"/v1/agent/servers": `["` + m.server.at() + `"]`, "/v1/status/leader": `"` + m.server.at() + `"`,
		} {
			if code, body := asked.get(path); code != 200 || body != says {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
	}
	self, err := m.nodes["a"].AgentSelf(m.nodes["a"].ctx())
	if err != nil || self.Stats["client"]["known_servers"] != m.server.at() || self.Stats["nomad"] != nil || self.Member.Name != "" {
		t.Errorf("a node says of itself %+v, %v", self, err)
	}
	self, err = m.server.AgentSelf(m.server.ctx())
	if err != nil || self.Stats["nomad"]["leader"] != "true" || self.Stats["client"] != nil || self.Member.Name != "srv.global" {
		t.Errorf("the server says of itself %+v, %v", self, err)
	}
	if code, body := m.server.get("/v1/client/stats"); code != 400 || !strings.Contains(body, "this agent is no node") {
		t.Errorf("stats of a server: %d %s", code, body)
	}
	if code, body := m.nodes["b"].get("/v1/metrics"); code != 200 || !strings.Contains(body, `"nomad.client.allocations.running","Value":1`) || strings.Contains(body, "nomad.nomad.broker") {
		t.Errorf("metrics of a node: %d %s", code, body)
	}
}

func (m *machines) serverDies(pids map[string]int, allocs []*model.AllocListStub) {
	t := m.t
	m.server.kill()
	a := m.nodes["a"]
	a.eventually(10*time.Second, "a node says that no server answers", func() bool {
		code, body := a.get("/v1/jobs")
		return code == 500 && strings.Contains(body, "no server answers at "+m.server.at())
	})
	for _, x := range allocs {
		if x.NodeName != "a" {
			continue
		}
		if code, body := a.get("/v1/client/fs/cat/" + x.ID + "?path=t/local/pid"); code != 200 || strings.TrimSpace(body) != strconv.Itoa(pids[x.ID]) {
			t.Errorf("its own alloc meanwhile: %d %s", code, body)
		}
	}
	m.server.launch()
	m.connected()
	m.ready("a", "b", "c")
	m.unharmed("spread", pids)
	for _, x := range allocs {
		if out := m.server.must("alloc", "logs", x.ID, "t"); !strings.Contains(out, "I am "+x.ID) {
			t.Errorf("logs afterwards: %s", out)
		}
	}
}

func TestWithMutualTLSOnlyNodesOfTheAuthorityJoin(t *testing.T) {
	t.Parallel()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	w := newNetwork(t)
	ours, theirs := testkit.NewAuthority(t), testkit.NewAuthority(t)
	m := &machines{t: t, nodes: map[string]*agent{}}
	m.server = w.machine("srv", "server { enabled = true }\n"+secured(ours.Machine("srv", "server.global.nomad", true)))
	m.server.launch()
	other := ours.Machine("impostor", "client.global.nomad", true)
	impostor := w.machine("impostor", "server { enabled = true }\n"+secured(other)+"tls {\n  http = true\n  verify_https_client = true\n}")
	impostor.launch()
	for name, config := range map[string]string{
		"a":        nodeOf(m.server) + secured(ours.Machine("a", "client.global.nomad", true)),
		"plain":    nodeOf(m.server),
		"stranger": nodeOf(m.server) + secured(theirs.Machine("stranger", "client.global.nomad", false)),
		"misled":   nodeOf(impostor) + secured(ours.Machine("misled", "client.global.nomad", true)),
	} {
		m.nodes[name] = w.machine(name, config)
		m.nodes[name].launch()
	}
	m.ready("a")
	a := m.nodes["a"]
	a.run(shell("secure", "service", 1, "", "echo hello; while :; do sleep 0.1; done"))
	x := m.server.await("secure", "running", 1)[0]
	for _, asked := range []*agent{a, m.server} {
		asked.eventually(10*time.Second, "the log of the task", func() bool { return strings.Contains(asked.must("alloc", "logs", x.ID, "t"), "hello") })
		if out, code := asked.cli("alloc", "exec", "-task", "t", x.ID, "echo", "hi"); code != 0 || strings.TrimSpace(out) != "hi" {
			t.Errorf("exec: exit code %d, %s", code, out)
		}
	}
	for _, name := range []string{"plain", "stranger", "misled"} {
		n := m.nodes[name]
		n.eventually(15*time.Second, name+" says that it has no session, and why", func() bool {
			return strings.Count(n.log(), "no session with the servers; trying again") > 2 && n.alive()
		})
		if code, body := n.get("/v1/jobs"); code != 500 || !strings.Contains(body, "no server answers") {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	m.ready("a") // and nobody else
	overHTTPS(t, impostor, other, theirs.Machine("reader", "client.global.nomad", false))
	if log := m.nodes["misled"].log(); !strings.Contains(log, "server.global.nomad") {
		t.Errorf("a node that was sent to another node says\n%s", log)
	}
}

// overHTTPS asks an agent whose HTTP API wants certificates of its authority.
func overHTTPS(t *testing.T, a *agent, ours, theirs rpc.TLS) {
	t.Helper()
	ask := func(more ...string) (string, int) {
		return a.cli(append([]string{"server", "members", "-address", "https" + strings.TrimPrefix(a.addr, "http"), "-ca-cert", ours.CAFile, "-tls-server-name", "client.global.nomad"}, more...)...)
	}
	if out, code := ask("-client-cert", ours.CertFile, "-client-key", ours.KeyFile); code != 0 || !strings.Contains(out, "impostor.global") {
		t.Errorf("with a certificate: exit code %d, %s", code, out)
	}
	if out, code := ask("-client-cert", theirs.CertFile, "-client-key", theirs.KeyFile); code != 1 {
		t.Errorf("with a certificate of others: exit code %d, %s", code, out)
	}
	if out, code := ask(); code != 1 {
		t.Errorf("without a certificate: exit code %d, %s", code, out)
	}
	if code, body := a.get("/v1/agent/self"); code != 400 || !strings.Contains(body, "HTTPS") {
		t.Errorf("without TLS: %d %s", code, body)
	}
}

func TestARegistryRollsAPluginOutOverMachinesOneByOneAndStopsAtAFailure(t *testing.T) {
	m := newMachines(t, "a", "b", "c")
	a := m.nodes["a"] // all of it through a node, uploads included
	register := func(version string, more ...string) (string, int) {
		args := append([]string{"plugin", "register", "-max-parallel", "1", "-min-healthy-time", "100ms", "-healthy-deadline", "30s"}, more...)
		return a.cliWithin(time.Minute, append(args, "driver-shell", shellPlugin(t, version))...)
	}
	if out, code := register("1.0.0", "-version", "1.0.0"); code != 0 || !strings.Contains(out, "is complete: 3 done") {
		t.Fatalf("the first version: exit code %d\n%s", code, out)
	}
	wide := m.widest("driver-shell")
	if out, code := register("2.0.0", "-version", "2.0.0"); code != 0 || !strings.Contains(out, "is complete: 3 done") {
		t.Fatalf("the second version: exit code %d\n%s", code, out)
	}
	if got := m.versions("driver-shell"); got != "a=2.0.0 b=2.0.0 c=2.0.0" {
		t.Fatalf("the nodes run %s", got)
	}
	if out, code := register("broken"); code != 1 || !strings.Contains(out, "this version is broken") {
		t.Fatalf("a broken version: exit code %d\n%s", code, out)
	}
	nodes, _, err := a.RegistryPluginNodes(a.ctx(), "driver-shell", nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, n := range nodes {
		if n.Standing == "failed" {
			failed++
		}
	}
	if got := m.versions("driver-shell"); failed != 1 || got != "a=2.0.0 b=2.0.0 c=2.0.0" {
		t.Errorf("%d nodes tried the broken version; they run %s", failed, got)
	}
	if n := wide(); n != 1 {
		t.Errorf("%d nodes changed at the same time, want 1", n)
	}
}

// versions is what each node says it runs of a plugin: "a=1.0.0 b=1.0.0".
func (m *machines) versions(plugin string) string {
	m.t.Helper()
	list, _, err := m.server.Nodes(m.server.ctx(), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	var out []string
	for _, stub := range list {
		n, _, err := m.server.Node(m.server.ctx(), stub.ID, nil)
		if err != nil {
			m.t.Fatal(err)
		}
		v := "none"
		if p := n.Plugins[plugin]; p != nil && p.State == "running" {
			v = p.Version
		}
		out = append(out, fmt.Sprintf("%s=%s", n.Name, v))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// widest follows a roll-out by long polls through a node until it is asked how
// many nodes were in flight at most.
func (m *machines) widest(plugin string) func() int {
	most, done, ended := 0, make(chan struct{}), make(chan struct{})
	c := m.nodes["c"]
	go func() {
		defer close(ended)
		q := &client.Query{WaitTime: time.Second}
		for {
			select {
			case <-done:
				return
			default:
			}
			p, meta, err := c.RegistryPlugin(m.t.Context(), plugin, false, q)
			if err != nil {
				m.t.Error(err)
				return
			}
			most, q.WaitIndex = max(most, len(p.Rollout.InFlight)), meta.Index
		}
	}()
	return func() int { close(done); <-ended; return most }
}
