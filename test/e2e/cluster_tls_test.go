// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/test/e2e/harness"
)

func TestWithMutualTLSOnlyNodesOfTheAuthorityJoin(t *testing.T) {
	harness.TakeSlot(t)
	w := harness.NewNetwork(t)
	ours, theirs := testkit.NewAuthority(t), testkit.NewAuthority(t)
	m := &machines{t: t, nodes: map[string]*agent{}}
	// An agent that is both server and node: its own node needs no connection, other
	// nodes connect.
	m.server = &agent{w.Machine("srv", "")}
	m.server.Configure("server { enabled = true }\n" + harness.NodeOf(m.server.Agent) + harness.Secured(ours.Machine("srv", "server.global.nomad", true)))
	m.nodes["srv"] = m.server
	m.server.Launch()
	// It has a certificate of a node, with which it starts as a server only if it checks none.
	other := ours.Machine("impostor", "client.global.nomad", false)
	impostor := &agent{w.Machine("impostor", "server { enabled = true }\n"+harness.Secured(other)+"tls {\n  http = true\n  verify_https_client = true\n}")}
	impostor.Launch()
	for name, config := range map[string]string{
		"a":        harness.NodeOf(m.server.Agent) + harness.Secured(ours.Machine("a", "client.global.nomad", true)),
		"plain":    harness.NodeOf(m.server.Agent),
		"far":      "region = \"eu\"\n" + harness.NodeOf(m.server.Agent) + harness.Secured(ours.Machine("far", "client.eu.nomad", false)),
		"stranger": harness.NodeOf(m.server.Agent) + harness.Secured(theirs.Machine("stranger", "client.global.nomad", false)),
		"misled":   harness.NodeOf(impostor.Agent) + harness.Secured(ours.Machine("misled", "client.global.nomad", true)),
	} {
		m.nodes[name] = &agent{w.Machine(name, config)}
		m.nodes[name].Launch()
	}
	m.ready("a", "srv")
	a := m.nodes["a"]
	a.Run(harness.Shell("secure", "service", 2, "constraint {\n distinct_hosts = true\n }", "echo hello; while :; do sleep 0.1; done"))
	for _, x := range m.server.Await("secure", "running", 2) { // one on each
		for _, asked := range []*agent{a, m.server} {
			asked.Eventually(10*time.Second, "the log of the task", func() bool { return strings.Contains(asked.Must("alloc", "logs", x.ID, "t"), "hello") })
			if out, code := asked.CLI("alloc", "exec", "-task", "t", x.ID, "echo", "hi"); code != 0 || strings.TrimSpace(out) != "hi" {
				t.Errorf("exec: exit code %d, %s", code, out)
			}
		}
	}
	for _, name := range []string{"plain", "stranger", "misled"} {
		n := m.nodes[name]
		n.Eventually(15*time.Second, name+" says that it has no session, and why", func() bool {
			return strings.Contains(n.Log(), "no session with the servers; trying again") && n.Alive()
		})
		if code, body := n.HTTPGet("/v1/jobs"); code != 500 || !strings.Contains(body, "no server answers") {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	far := m.nodes["far"]
	far.Eventually(15*time.Second, "a node of another region says why it has no session", func() bool {
		return strings.Contains(far.Log(), `this server is of region \"global\" and the node of region \"eu\"`)
	})
	m.ready("a", "srv") // and no other node
	overHTTPS(t, impostor, other, theirs.Machine("reader", "client.global.nomad", false))
	if log := m.nodes["misled"].Log(); !strings.Contains(log, "server.global.nomad") {
		t.Errorf("a node that was sent to another node says\n%s", log)
	}
}

// overHTTPS sends requests to an agent whose HTTP API requires client certificates.
func overHTTPS(t *testing.T, a *agent, ours, theirs rpc.TLS) {
	t.Helper()
	ask := func(more ...string) (string, int) {
		return a.CLI(append([]string{"server", "members", "-address", "https" + strings.TrimPrefix(a.Addr, "http"), "-ca-cert", ours.CAFile, "-tls-server-name", "client.global.nomad"}, more...)...)
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
	if code, body := a.HTTPGet("/v1/agent/self"); code != 400 || !strings.Contains(body, "HTTPS") {
		t.Errorf("without TLS: %d %s", code, body)
	}
}
