// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/test/e2e/harness"
)

func TestARegistryRollsAPluginOutOverMachinesOneByOneAndStopsAtAFailure(t *testing.T) {
	m := newMachines(t, "a", "b", "c")
	a := m.nodes["a"] // everything goes through a node, including uploads
	register := func(version string, more ...string) (string, int) {
		args := append([]string{"plugin", "register", "-max-parallel", "1", "-min-healthy-time", "100ms", "-healthy-deadline", "2m"}, more...)
		return a.CLIWithin(5*time.Minute, append(args, "driver-shell", harness.ShellPlugin(t, version))...)
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
	nodes, _, err := a.RegistryPluginNodes(a.Context(), "driver-shell", nil)
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

// versions returns the version of a plugin that each node reports: "a=1.0.0
// b=1.0.0".
func (m *machines) versions(plugin string) string {
	m.t.Helper()
	list, _, err := m.server.Nodes(m.server.Context(), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	var out []string
	for _, stub := range list {
		n, _, err := m.server.Node(m.server.Context(), stub.ID, nil)
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

// widest follows a roll-out with blocking queries through a node. The returned
// function stops and returns the largest number of nodes that were in flight at
// once.
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
