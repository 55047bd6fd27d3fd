// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
)

func TestWithMutualTLSOnlyNodesOfTheAuthorityJoin(t *testing.T) {
	t.Parallel()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	w := newNetwork(t)
	ours, theirs := testkit.NewAuthority(t), testkit.NewAuthority(t)
	m := &machines{t: t, nodes: map[string]*agent{}}
	// An agent that is both server and node: its own node needs no connection, other
	// nodes connect.
	m.server = w.machine("srv", "")
	m.server.configure("server { enabled = true }\n" + nodeOf(m.server) + secured(ours.Machine("srv", "server.global.nomad", true)))
	m.nodes["srv"] = m.server
	m.server.launch()
	other := ours.Machine("impostor", "client.global.nomad", true)
	impostor := w.machine("impostor", "server { enabled = true }\n"+secured(other)+"tls {\n  http = true\n  verify_https_client = true\n}")
	impostor.launch()
	for name, config := range map[string]string{
		"a":        nodeOf(m.server) + secured(ours.Machine("a", "client.global.nomad", true)),
		"plain":    nodeOf(m.server),
		"far":      "region = \"eu\"\n" + nodeOf(m.server) + secured(ours.Machine("far", "client.eu.nomad", false)),
		"stranger": nodeOf(m.server) + secured(theirs.Machine("stranger", "client.global.nomad", false)),
		"misled":   nodeOf(impostor) + secured(ours.Machine("misled", "client.global.nomad", true)),
	} {
		m.nodes[name] = w.machine(name, config)
		m.nodes[name].launch()
	}
	m.ready("a", "srv")
	a := m.nodes["a"]
	a.run(shell("secure", "service", 2, "constraint {\n distinct_hosts = true\n }", "echo hello; while :; do sleep 0.1; done"))
	for _, x := range m.server.await("secure", "running", 2) { // one on each
		for _, asked := range []*agent{a, m.server} {
			asked.eventually(10*time.Second, "the log of the task", func() bool { return strings.Contains(asked.must("alloc", "logs", x.ID, "t"), "hello") })
			if out, code := asked.cli("alloc", "exec", "-task", "t", x.ID, "echo", "hi"); code != 0 || strings.TrimSpace(out) != "hi" {
				t.Errorf("exec: exit code %d, %s", code, out)
			}
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
	far := m.nodes["far"]
	far.eventually(15*time.Second, "a node of another region says why it has no session", func() bool {
		return strings.Contains(far.log(), `this server is of region \"global\" and the node of region \"eu\"`)
	})
	m.ready("a", "srv") // and no other node
	overHTTPS(t, impostor, other, theirs.Machine("reader", "client.global.nomad", false))
	if log := m.nodes["misled"].log(); !strings.Contains(log, "server.global.nomad") {
		t.Errorf("a node that was sent to another node says\n%s", log)
	}
}

// overHTTPS sends requests to an agent whose HTTP API requires client certificates.
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
