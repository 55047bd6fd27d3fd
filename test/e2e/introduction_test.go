// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/e2e/harness"
)

func TestAStrictClusterTakesOnlyIntroducedNodesAndGivesThemIdentities(t *testing.T) {
	harness.TakeSlot(t)
	w := harness.NewNetwork(t)
	server := &agent{w.Machine("srv", "server {\n  enabled = true\n  bootstrap_expect = 1\n  heartbeat_grace = \"0s\"\n  client_introduction {\n    enforcement = \"strict\"\n    max_identity_ttl = \"10m\"\n  }\n}")}
	m := &machines{t: t, network: w, server: server, nodes: map[string]*agent{"a": {w.Machine("a", harness.NodeOf(server.Agent))}}}
	n := m.nodes["a"]
	server.Launch()
	n.Launch()
	n.Eventually(harness.Patience, "the node is refused and says what to do", func() bool {
		return strings.Contains(n.Log(), "is not introduced") && strings.Contains(n.Log(), "node intro create")
	})
	if out, code := server.CLI("node", "intro", "create", "-ttl", "1h"); code == 0 || !strings.Contains(out, "max_identity_ttl") {
		t.Errorf("a token that lives too long: %d %s", code, out)
	}
	// A token for another node does not help; that of the node does.
	introduce := func(name string) {
		t.Helper()
		var x struct{ JWT string }
		if err := json.Unmarshal([]byte(server.Must("node", "intro", "create", "-json", "-node-name", name, "-node-pool", "default", "-ttl", "5m")), &x); err != nil || x.JWT == "" {
			t.Fatalf("%v", err)
		}
		if err := os.WriteFile(filepath.Join(n.Data, "client", "intro_token.jwt"), []byte(x.JWT+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		n.Kill()
		n.Launch()
	}
	introduce("b")
	n.Eventually(harness.Patience, "it is refused with the token of another", func() bool { return strings.Contains(n.Log(), `its token is for a node of the name \"b\"`) })
	introduce("a")
	m.ready("a")
	// From now on it needs no introduction.
	if err := os.Remove(filepath.Join(n.Data, "client", "intro_token.jwt")); err != nil {
		t.Fatal(err)
	}
	n.Kill()
	n.Launch()
	m.connected()
	identity := func() (jti string) {
		t.Helper()
		id := n.Must("node", "identity", "get", "-json", nodeID(n))
		var x struct{ Claims map[string]any }
		if err := json.Unmarshal([]byte(id), &x); err != nil || x.Claims["nomad_node_id"] == "" {
			t.Fatalf("%s: %v", id, err)
		}
		jti, _ = x.Claims["jti"].(string)
		return jti
	}
	first := identity()
	n.Eventually(harness.Patience, "the node has a session, and renews its identity", func() bool {
		_, code := server.CLI("node", "identity", "renew", nodeID(n))
		return code == 0
	})
	if second := identity(); second == first || second == "" {
		t.Errorf("the identity is %q, before %q", second, first)
	}
	if out := server.Must("node", "identity", "get", nodeID(n)); !strings.Contains(out, "nomad_node_id") {
		t.Error(out)
	}
}

// nodeID returns the id of an agent's node.
func nodeID(a *agent) string {
	a.T.Helper()
	self, err := a.AgentSelf(a.Context())
	if err != nil {
		a.T.Fatal(err)
	}
	return self.Stats["client"]["node_id"]
}
