// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registry_test

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/registry"
)

// cluster is nodes that a test changes, and a plugin whose steps it takes.
type cluster struct {
	t     *testing.T
	now   time.Time
	index uint64
	nodes map[string]*model.Node
	p     *model.PluginSpec
	looks int // at nodes during walks
}

func newCluster(t *testing.T, parallel int, ids ...string) *cluster {
	c := &cluster{t: t, now: time.Unix(1_800_000_000, 0), nodes: map[string]*model.Node{}}
	for _, id := range ids {
		c.join(id)
	}
	c.register("1", parallel, false)
	return c
}

func (c *cluster) join(id string) *model.Node {
	c.nodes[id] = &model.Node{ID: id, Name: "name-" + id, Datacenter: "dc1", NodePool: "default", Status: model.NodeStatusReady}
	return c.nodes[id]
}

func (c *cluster) register(version string, parallel int, revert bool) {
	c.index++
	c.p = c.p.Register(&model.PluginSpec{
		Name: "p", MaxParallel: parallel, HealthyDeadline: time.Minute, AutoRevert: revert,
		Release: &model.PluginRelease{Version: version, Digest: "sha256:" + version, Source: "/p"},
	}, c.index)
}

func (c *cluster) NodeByID(id string) *model.Node { return c.nodes[id] }

func (c *cluster) NodesFrom(from string) iter.Seq[*model.Node] {
	return func(yield func(*model.Node) bool) {
		for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
			if id < from {
				continue
			}
			if c.looks++; !yield(c.nodes[id]) {
				return
			}
		}
	}
}

// step takes steps until there is none to take now, and returns when to look again.
func (c *cluster) step() time.Time {
	c.t.Helper()
	for range 6*len(c.nodes) + 6 {
		next, wake := registry.Step(c.p, c, c.now)
		if next == nil {
			return wake
		}
		if next.Revert != "" {
			back, err := c.p.Revert(next.Revert)
			if err != nil {
				c.t.Fatal(err)
			}
			c.p = back
			continue
		}
		p := *c.p
		p.Rollout = next.Rollout
		c.p = &p
	}
	c.t.Fatalf("the steps do not end: %+v", c.p.Rollout)
	return time.Time{}
}

// installs has a node say that it runs what it was told to.
func (c *cluster) installs(id string) {
	c.t.Helper()
	n := c.nodes[id]
	act, r := registry.NewTarget(c.p).For(n)
	if act != registry.Install {
		c.t.Fatalf("node %s is not told to install anything", id)
	}
	c.says(id, &model.NodeRelease{Revision: r.Revision}, &model.NodePlugin{Version: r.Version, Digest: r.Digest, State: "running"})
}

func (c *cluster) says(id string, r *model.NodeRelease, p *model.NodePlugin) {
	n := c.nodes[id].Copy()
	n.PluginReleases = map[string]*model.NodeRelease{"p": r}
	if p != nil {
		n.Plugins = map[string]*model.NodePlugin{"p": p}
	}
	c.nodes[id] = n
}

func (c *cluster) fails(id, why string) {
	said := model.NodeRelease{}
	if was := c.nodes[id].PluginReleases["p"]; was != nil {
		said = *was
	}
	said.Failed, said.Error = c.p.Release.Revision, why
	c.says(id, &said, c.nodes[id].Plugins["p"])
}

func (c *cluster) down(id string) {
	n := c.nodes[id].Copy()
	n.Status = model.NodeStatusDown
	c.nodes[id] = n
}

func (c *cluster) flying() string {
	var ids []string
	for _, a := range c.p.Rollout.InFlight {
		ids = append(ids, a.NodeID)
	}
	return strings.Join(ids, " ")
}

func (c *cluster) want(status, inFlight string) {
	c.t.Helper()
	if c.p.Rollout.Status != status || c.flying() != inFlight {
		c.t.Fatalf("the roll-out is %s with %q in flight (%s); want %s with %q", c.p.Rollout.Status, c.flying(), c.p.Rollout.Description, status, inFlight)
	}
}

func TestNodesAreAdmittedAFewAtATime(t *testing.T) {
	c := newCluster(t, 2, "a", "b", "c")
	if wake := c.step(); !wake.Equal(c.now.Add(time.Minute)) {
		t.Fatalf("it looks again at %v, not at the deadline", wake)
	}
	c.want(model.PluginRolloutRunning, "a b")
	c.installs("b")
	c.step()
	c.want(model.PluginRolloutRunning, "a c")
	c.installs("a")
	c.installs("c")
	c.step()
	c.want(model.PluginRolloutComplete, "")
}

func TestARolloutWithoutNodesIsComplete(t *testing.T) {
	c := newCluster(t, 1)
	c.step()
	c.want(model.PluginRolloutComplete, "")
}

func TestOnlyARunningPluginOfTheRightFileIsDone(t *testing.T) {
	c := newCluster(t, 1, "a")
	c.step()
	said := &model.NodeRelease{Revision: c.p.Release.Revision}
	for _, p := range []*model.NodePlugin{
		nil, {Digest: "sha256:other", State: "running"}, {Digest: c.p.Release.Digest, State: "backing off"},
	} {
		c.says("a", said, p)
		c.step()
		c.want(model.PluginRolloutRunning, "a")
	}
	c.says("a", said, &model.NodePlugin{Digest: c.p.Release.Digest, State: "undetected"}) // a node without the device
	c.step()
	c.want(model.PluginRolloutComplete, "")
}

func TestANodeIsWatchedBeforeTheNextTakesItsPlace(t *testing.T) {
	c := newCluster(t, 1, "a", "b")
	c.p.MinHealthyTime = 10 * time.Second
	c.step()
	c.installs("a")
	wake := c.step()
	if c.want(model.PluginRolloutRunning, "a"); !wake.Equal(c.now.Add(10 * time.Second)) {
		t.Fatalf("it looks again at %v", wake)
	}
	c.now = c.now.Add(5 * time.Second)
	c.nodes["a"].Plugins["p"].State = "backing off"
	c.step()
	c.nodes["a"].Plugins["p"].State = "running"
	c.step()
	c.now = wake // the time before the crash does not count
	c.step()
	c.want(model.PluginRolloutRunning, "a")
	c.now = c.now.Add(5 * time.Second)
	c.step()
	c.want(model.PluginRolloutRunning, "b")
}

func TestAFailureStopsTheRollout(t *testing.T) {
	c := newCluster(t, 1, "a", "b")
	c.step()
	c.fails("a", "it does not start")
	c.step()
	c.want(model.PluginRolloutFailed, "")
	if d := c.p.Rollout.Description; !strings.Contains(d, "node name-a (a): it does not start") {
		t.Fatalf("it says %q", d)
	}
	if act, _ := registry.NewTarget(c.p).For(c.nodes["b"]); act != registry.Keep {
		t.Fatalf("node b is told %v", act)
	}
}

func TestADeadlineStopsTheRollout(t *testing.T) {
	c := newCluster(t, 1, "a", "b")
	wake := c.step()
	c.now = wake.Add(-time.Nanosecond)
	c.step()
	c.want(model.PluginRolloutRunning, "a")
	c.now = wake
	c.step()
	c.want(model.PluginRolloutFailed, "")
}

func TestAFailureWithAutoRevertGoesBack(t *testing.T) {
	c := newCluster(t, 1, "a", "b", "c")
	for _, id := range []string{"a", "b", "c"} {
		c.step()
		c.installs(id)
	}
	c.step()
	c.want(model.PluginRolloutComplete, "")
	c.register("2", 1, true)
	c.step()
	c.installs("a")
	c.step()
	c.want(model.PluginRolloutRunning, "b")
	c.fails("b", "bad") // its host went back by itself
	c.step()
	c.want(model.PluginRolloutRunning, "a")
	c.installs("a")
	c.step()
	c.want(model.PluginRolloutComplete, "")
	if g := c.p.Rollout.GivenUp; c.p.Release.Version != "1" || g == nil || g.Version != "2" || !strings.Contains(g.Reason, "bad") {
		t.Fatalf("it is at %s having given up %+v", c.p.Release.Version, g)
	}
}

func TestANodeThatWasDoneAndFallsBackStopsTheRollout(t *testing.T) {
	c := newCluster(t, 1, "a", "b")
	c.step()
	c.installs("a")
	c.step()
	c.want(model.PluginRolloutRunning, "b")
	c.fails("a", "it crashed and went back")
	c.installs("b")
	c.step()
	c.want(model.PluginRolloutFailed, "")
}

func TestNodesThatAreDownDoNotBlockAndGetItWhenTheyAreBack(t *testing.T) {
	c := newCluster(t, 1, "a", "b")
	c.down("b")
	c.step()
	c.installs("a")
	c.step()
	c.want(model.PluginRolloutComplete, "")
	c.join("b")
	act, r := registry.NewTarget(c.p).For(c.nodes["b"])
	if act != registry.Install || r.Version != "1" {
		t.Fatalf("the node that came back is told %v %+v", act, r)
	}

	c.register("2", 1, false)
	c.step()
	c.want(model.PluginRolloutRunning, "a")
	c.down("a") // in the middle of it
	c.step()
	c.want(model.PluginRolloutRunning, "b")
	c.join("a") // behind the walk
	c.installs("b")
	c.step()
	c.want(model.PluginRolloutRunning, "a")
}

func TestAPausedRolloutAdmitsNobody(t *testing.T) {
	c := newCluster(t, 1, "a", "b")
	c.step()
	paused, err := c.p.Steer(model.PluginRolloutPause, 9)
	if err != nil {
		t.Fatal(err)
	}
	c.p = paused
	c.installs("a")
	c.step()
	c.want(model.PluginRolloutPaused, "")
	if c.p, err = c.p.Steer(model.PluginRolloutResume, 10); err != nil {
		t.Fatal(err)
	}
	c.step()
	c.want(model.PluginRolloutRunning, "b")
}

func TestWhatANodeIsToldToHave(t *testing.T) {
	c := newCluster(t, 1, "a")
	c.step()
	c.installs("a")
	c.step()
	c.register("2", 1, false)
	old := c.nodes["a"]
	fresh := c.join("b")
	target := registry.NewTarget(c.p)
	if act, _ := target.For(old); act != registry.Keep {
		t.Errorf("a node that was not admitted is told %v", act)
	}
	if act, r := target.For(fresh); act != registry.Install || r.Version != "1" {
		t.Errorf("a new node is told %v %+v during the roll-out", act, r)
	}
	other := c.join("c")
	other.NodePool = "gpu"
	p := *c.p
	p.NodePool, p.Datacenters = "default", []string{"dc*"}
	p.Constraints = []*model.Constraint{{LTarget: "${node.class}", Operand: "!=", RTarget: "small"}}
	target = registry.NewTarget(&p)
	if act, _ := target.For(other); act != registry.Remove {
		t.Errorf("a node of another pool is told %v", act)
	}
	small := c.join("d")
	small.NodeClass = "small"
	if act, _ := target.For(small); act != registry.Remove {
		t.Errorf("a node that a constraint excludes is told %v", act)
	}
	if s, why := target.Of(small); s != registry.Elsewhere || !strings.Contains(why, "node.class") {
		t.Errorf("it stands %s, %q", s, why)
	}
}

func TestALargeRolloutLooksAtEachNodeAFewTimes(t *testing.T) {
	const n = 300
	c := newCluster(t, 3)
	for i := range n {
		id := fmt.Sprintf("n%04d", i)
		if c.join(id); i >= n/2 {
			c.down(id) // a long tail that is not waiting
		}
	}
	for c.p.Rollout.Status == model.PluginRolloutRunning {
		c.step()
		for _, a := range slices.Clone(c.p.Rollout.InFlight)[:min(1, len(c.p.Rollout.InFlight))] {
			c.installs(a.NodeID)
		}
	}
	if c.want(model.PluginRolloutComplete, ""); c.looks > 4*n {
		t.Fatalf("%d nodes were looked at %d times", n, c.looks)
	}
}

// TestEveryRolloutEndsAndNeverExceedsItsWidth lets nodes do anything.
func TestEveryRolloutEndsAndNeverExceedsItsWidth(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		parallel := 1 + rng.IntN(4)
		c := newCluster(t, parallel)
		for i := range 1 + rng.IntN(12) {
			c.join(fmt.Sprintf("n%02d", i))
		}
		end := c.now.Add(time.Duration(len(c.nodes)+1) * 2 * time.Minute)
		calm := c.now.Add(2 * time.Minute) // from then on nodes keep their status
		for c.p.Rollout.Status == model.PluginRolloutRunning {
			wake := c.step()
			c.settled(seed)
			if n := len(c.p.Rollout.InFlight); n > parallel {
				t.Fatalf("seed %d: %d in flight, %d allowed", seed, n, parallel)
			}
			for _, a := range slices.Clone(c.p.Rollout.InFlight) {
				switch rng.IntN(4) {
				case 0, 1:
					if c.nodes[a.NodeID].Status == model.NodeStatusReady {
						c.installs(a.NodeID)
					}
				case 2:
					if rng.IntN(20) == 0 {
						c.fails(a.NodeID, "no")
					}
				}
			}
			if id := fmt.Sprintf("n%02d", rng.IntN(12)); c.now.Before(calm) && c.nodes[id] != nil {
				if c.down(id); rng.IntN(2) == 0 {
					c.join(id)
				}
			}
			c.now = c.now.Add(time.Duration(rng.IntN(30)) * time.Second)
			if wake.IsZero() && c.p.Rollout.Status == model.PluginRolloutRunning && len(c.p.Rollout.InFlight) == 0 {
				t.Fatalf("seed %d: it waits for nothing: %+v", seed, c.p.Rollout)
			}
			if c.now.After(end) {
				t.Fatalf("seed %d: it does not end: %+v", seed, c.p.Rollout)
			}
		}
	}
}

// settled checks a roll-out that is complete.
func (c *cluster) settled(seed uint64) {
	c.t.Helper()
	if c.p.Rollout.Status != model.PluginRolloutComplete {
		return
	}
	for id, n := range c.nodes {
		if s, _ := registry.NewTarget(c.p).Of(n); s != registry.Done && s != registry.Down {
			c.t.Fatalf("seed %d: it is complete and node %s is %s", seed, id, s)
		}
	}
}
