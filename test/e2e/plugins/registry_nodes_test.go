// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	nodeside "github.com/drover-project/drover/core/agent"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/test/e2e/harness"
)

// fleet is a server with nodes that connect over the network. Each node is a
// complete agent with its own plugin processes, but all run in the test's process.
type fleet struct {
	*testkit.Cluster
	t     *testing.T
	dir   string
	addr  string
	nodes map[string]*nodeside.Agent
	links map[string]*rpc.Client
	wide  atomic.Int64 // the largest number of nodes in flight at once
}

func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "drover-fleet-") // the path must be short, because sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{
		t: t, dir: dir, nodes: map[string]*nodeside.Agent{}, links: map[string]*rpc.Client{},
		Cluster: testkit.StartWith(t, server.Config{DataDir: t.TempDir(), PluginRegistry: true, HeartbeatTTL: 8 * time.Second}),
	}
	t.Cleanup(func() {
		for _, name := range slices.Collect(maps.Keys(f.nodes)) {
			f.leave(name)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Log(err)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	sessions := rpc.NewServer(f.Server.Sessions(), nil, hclog.NewNullLogger())
	go func() { _ = sessions.Serve(l) }() // Serve returns when the server is closed
	t.Cleanup(sessions.Close)
	f.watch()
	for _, name := range names {
		f.join(name)
	}
	return f
}

// watch records the largest number of nodes in flight.
func (f *fleet) watch() {
	feed := f.Server.Endpoint().Store.Subscribe(state.TablePluginSpecs)
	f.t.Cleanup(feed.Close)
	go func() {
		for {
			batch, err := feed.Next(f.t.Context())
			if err != nil {
				return
			}
			for _, c := range batch.Changes {
				if p, ok := c.New.(*model.PluginSpec); ok {
					f.wide.Store(max(f.wide.Load(), int64(len(p.Rollout.InFlight))))
				}
			}
		}
	}()
}

// join starts a node. If it existed before, it keeps its data.
func (f *fleet) join(name string) {
	f.t.Helper()
	client, err := rpc.Dial(f.addr, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	plugins := filepath.Join(f.dir, name, "plugins")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		f.t.Fatal(err)
	}
	a, err := nodeside.New(f.t.Context(), nodeside.Config{
		DataDir: filepath.Join(f.dir, name, "data"), PluginDir: plugins, Servers: client,
		Node: &model.Node{Name: name, Meta: map[string]string{"name": name}}, Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := a.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.nodes[name], f.links[name] = a, client
}

// leave ends a node without a clean shutdown: its connection breaks first.
func (f *fleet) leave(name string) {
	f.t.Helper()
	if err := f.links[name].Close(); err != nil {
		f.t.Errorf("close the connection of node %s: %v", name, err)
	}
	if err := f.nodes[name].Close(); err != nil {
		f.t.Errorf("end node %s: %v", name, err)
	}
	delete(f.nodes, name)
}

// register uploads and registers a version of the plugin.
func (f *fleet) register(version string, more map[string]any) {
	f.t.Helper()
	body, err := os.ReadFile(harness.ShellPlugin(f.t, version))
	if err != nil {
		f.t.Fatal(err)
	}
	digest := digestOf(body)
	f.Must("PUT", "/v1/registry/file/"+digest, body, nil)
	spec := map[string]any{
		"MaxParallel": 1, "MinHealthyTime": "50ms", "HealthyDeadline": "1m",
		"Release": map[string]any{"Version": more["Version"], "Digest": digest, "Source": "uploaded"},
	}
	maps.Copy(spec, more)
	delete(spec, "Version")
	f.Must("PUT", "/v1/registry/plugin/driver-shell", spec, nil)
}

func (f *fleet) spec() *model.PluginSpec { return f.View().PluginSpecByName("driver-shell") }

// versions returns the version on each node: "a=1.0.0 b=1.0.0".
func (f *fleet) versions() string {
	var out []string
	for n := range f.View().Nodes() {
		v := "none"
		if p := n.Plugins["driver-shell"]; p != nil && p.State == "running" {
			v = p.Version
		}
		out = append(out, n.Name+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (f *fleet) await(status, versions string) {
	f.t.Helper()
	defer func() {
		if f.t.Failed() {
			f.t.Logf("the plugin: %+v %+v; the nodes: %s", f.spec(), f.spec().Rollout, f.versions())
		}
	}()
	f.Eventually(fmt.Sprintf("the roll-out is %s with %s", status, versions), func() bool {
		return f.spec().Rollout.Status == status && f.versions() == versions
	})
}

func TestAReleaseIsRolledOutOverNodesOneByOneAndStopsAtAFailure(t *testing.T) {
	f := newFleet(t, "a", "b", "c")
	f.Eventually("three nodes are ready", func() bool { return f.versions() == "a=none b=none c=none" })
	f.register("1.0.0", map[string]any{"Version": "1.0.0"})
	f.await(model.PluginRolloutComplete, "a=1.0.0 b=1.0.0 c=1.0.0")

	f.register("broken", nil)
	f.await(model.PluginRolloutFailed, "a=1.0.0 b=1.0.0 c=1.0.0")
	tried := 0
	for n := range f.View().Nodes() {
		if n.PluginReleases["driver-shell"].Failed != 0 {
			tried++
		}
	}
	if why := f.spec().Rollout.Description; tried != 1 || !strings.Contains(why, "this version is broken") {
		t.Fatalf("%d nodes tried the broken version: %s", tried, why)
	}

	f.join("d") // a joining node gets the newest release that was rolled out completely
	f.await(model.PluginRolloutFailed, "a=1.0.0 b=1.0.0 c=1.0.0 d=1.0.0")

	f.leave("b")
	f.Eventually("the node that left is down", func() bool {
		for n := range f.View().Nodes() {
			if n.Name == "b" {
				return n.Status == model.NodeStatusDown
			}
		}
		return false
	})
	f.register("2.0.0", map[string]any{"Version": "2.0.0", "Constraints": []any{map[string]any{"LTarget": "${meta.name}", "Operand": "!=", "RTarget": "d"}}})
	f.Eventually("the roll-out does not wait for it, and the plugin leaves the node that is no target", func() bool {
		return f.spec().Rollout.Status == model.PluginRolloutComplete && f.versions() == "a=2.0.0 b=1.0.0 c=2.0.0 d=none"
	})
	f.join("b")
	f.await(model.PluginRolloutComplete, "a=2.0.0 b=2.0.0 c=2.0.0 d=none")

	f.Must("PUT", "/v1/registry/plugin/driver-shell/rollout", map[string]any{"Action": "revert"}, nil)
	f.await(model.PluginRolloutComplete, "a=1.0.0 b=1.0.0 c=1.0.0 d=none")
	if wide := f.wide.Load(); wide != 1 {
		t.Errorf("%d nodes were in flight at once, want 1", wide)
	}

	f.Must("DELETE", "/v1/registry/plugin/driver-shell", nil, nil)
	f.Eventually("the plugin is gone from all nodes", func() bool { return f.versions() == "a=none b=none c=none d=none" })
}

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
