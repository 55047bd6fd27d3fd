// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestAnAgentSaysAtItsStartWhatItDoesNotActOnAndWhoReachesItsPorts(t *testing.T) {
	doors := []string{
		"the HTTP API listens on 0.0.0.0", "whoever reaches it can run programs on all nodes", "addresses { http = \"127.0.0.1\" }",
		"the server listens for nodes on 0.0.0.0", "whoever reaches it can join as a node and is given jobs with their secrets", "addresses { rpc = \"127.0.0.1\" }",
	}
	const unused = "client.cgroup_parent is not acted on yet"
	a := newAgent(t).start()
	for _, text := range append(doors, unused) {
		if strings.Contains(a.Log(), text) {
			t.Errorf("on loopback it says %q", text)
		}
	}
	if out := a.Must("server", "members"); strings.Contains(out, "Warning") {
		t.Errorf("on loopback: %s", out)
	}
	a.Kill()
	a.Configure("addresses {\n  http = \"0.0.0.0\"\n  rpc = \"0.0.0.0\"\n}\nclient {\n  cgroup_parent = \"x\"\n}\n")
	a.start()
	members, valid := a.Must("server", "members"), a.Must("config", "validate", filepath.Join(a.Dir, "agent.hcl"))
	for _, text := range append(doors, unused) {
		if !strings.Contains(a.Log(), text) || !strings.Contains(valid, text) {
			t.Errorf("%q is not in the log, or not in\n%s", text, valid)
		}
		if text != unused && !strings.Contains(members, text) {
			t.Errorf("%q is not in\n%s", text, members)
		}
	}
}
