// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/plugins"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/registry"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
)

// world is a real state and the controller at work on it.
type world struct {
	t     *testing.T
	store *state.Store
	fsm   *fsm.FSM

	mu    sync.Mutex
	index uint64
	wide  int // the most nodes that were in flight
}

func (w *world) Propose(_ context.Context, data []byte) (uint64, any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index++
	answer := w.fsm.ApplyBatch([]fsm.Entry{{Index: w.index, Data: data}})[0]
	if p := w.plugin(); p != nil {
		w.wide = max(w.wide, len(p.Rollout.InFlight))
	}
	err, _ := answer.(error)
	return w.index, nil, err
}

func (w *world) apply(c fsm.Command) {
	w.t.Helper()
	data, err := fsm.Encode(c)
	if err == nil {
		_, _, err = w.Propose(w.t.Context(), data)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) plugin() *model.PluginSpec { return w.store.View().PluginSpecByName("p") }

// start runs the controller over nodes until the test ends.
func start(t *testing.T, ids ...string) *world {
	s := state.New()
	w := &world{t: t, store: s, fsm: fsm.New(s, hclog.NewNullLogger()), index: 10}
	invariants.AtEnd(t, s)
	for _, id := range ids {
		w.apply(&fsm.RegisterNode{Node: &model.Node{ID: id, Name: id, Status: model.NodeStatusReady}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	sup := control.NewLoops(s, w, func() string { return "id" }, hclog.NewNullLogger())
	go func() { defer close(done); sup.Run(ctx, plugins.Controller{}) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return w
}

func (w *world) register(version string, revert bool) {
	w.apply(&fsm.RegisterPlugin{Spec: &model.PluginSpec{
		Name: "p", MaxParallel: 2, HealthyDeadline: time.Minute, AutoRevert: revert,
		Release: &model.PluginRelease{Version: version, Digest: "sha256:" + version, Source: "/p"},
	}})
}

// obey has every node do what it is told, until nobody is told anything new. A
// node for which refuses answers true fails instead.
func (w *world) obey(refuses func(id, version string) bool) {
	for again := true; again; {
		again = false
		for _, n := range slices.Collect(w.store.View().Nodes()) {
			act, r := registry.NewTarget(w.plugin()).For(n)
			said := model.NodeRelease{}
			if was := n.PluginReleases["p"]; was != nil {
				said = *was
			}
			if act != registry.Install || said.Revision == r.Revision || said.Failed == r.Revision {
				continue
			}
			again = true
			next := n.Copy()
			if refuses(n.ID, r.Version) {
				said.Failed, said.Error = r.Revision, "it does not start"
			} else {
				said = model.NodeRelease{Revision: r.Revision}
				next.Plugins = map[string]*model.NodePlugin{"p": {Version: r.Version, Digest: r.Digest, State: "running"}}
			}
			next.PluginReleases = map[string]*model.NodeRelease{"p": &said}
			w.apply(&fsm.RegisterNode{Node: next})
		}
	}
}

func (w *world) want(version, status string) {
	w.t.Helper()
	if p := w.plugin(); p.Release.Version != version || p.Rollout.Status != status {
		w.t.Fatalf("release %s is %s (%s), want %s %s", p.Release.Version, p.Rollout.Status, p.Rollout.Description, version, status)
	}
}

func never(string, string) bool { return false }

func TestAReleaseReachesAllNodesFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "a", "b", "c", "d", "e")
		w.register("1", false)
		w.obey(never)
		w.want("1", model.PluginRolloutComplete)
		if w.wide != 2 {
			t.Errorf("%d nodes were in flight at once, want 2", w.wide)
		}
	})
}

func TestABadReleaseIsTakenBackByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "a", "b", "c", "d", "e")
		w.register("1", true)
		w.obey(never)
		w.register("2", true)
		w.obey(func(id, version string) bool { return id == "c" && version == "2" })
		w.want("1", model.PluginRolloutComplete)
		for n := range w.store.View().Nodes() {
			if v := n.Plugins["p"].Version; v != "1" {
				t.Errorf("node %s is left with %s", n.ID, v)
			}
		}
	})
}

func TestANodeThatSaysNothingStopsTheRolloutAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "a", "b", "c")
		w.register("1", false)
		w.want("1", model.PluginRolloutRunning)
		time.Sleep(time.Minute) // in the bubble: until the deadline
		synctest.Wait()
		w.want("1", model.PluginRolloutFailed)
	})
}

func TestARolloutThatWaitsForANodeEndsWithTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "a")
		w.register("1", false)
		w.want("1", model.PluginRolloutRunning)
		w.apply(&fsm.DeregisterNodes{IDs: []string{"a"}})
		w.want("1", model.PluginRolloutComplete)
	})
}

func TestNewsThatNoRolloutLooksAtWakeNobody(t *testing.T) {
	old := &model.Node{ID: "a", Status: model.NodeStatusReady}
	now := old.Copy()
	now.Events = []*model.NodeEvent{{Message: "m"}}
	if keys := (plugins.Controller{}).Keys(state.Change{Old: old, New: now}); len(keys) > 0 {
		t.Fatalf("it wakes %q", keys)
	}
}
