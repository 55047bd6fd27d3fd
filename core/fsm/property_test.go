// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

func text(results []any) string { return fmt.Sprint(results) }

func TestTheSameLogGivesTheSameStateHoweverItIsBatched(t *testing.T) {
	for seed := range uint64(15) {
		log := newWorld(seed).log(t, 300)
		one, many := newFSM(), newFSM()
		rng := rand.New(rand.NewPCG(seed, 5))
		a, b := applyIn(one, log, rng, 1), applyIn(many, log, rng, 64)
		if text(a) != text(b) {
			t.Fatalf("seed %d: results differ by batching", seed)
		}
		if hashOf(t, one) != hashOf(t, many) {
			t.Fatalf("seed %d: states differ by batching", seed)
		}
	}
}

func TestASnapshotAndTheLogBehindItGiveTheStateOfTheWholeLog(t *testing.T) {
	for seed := range uint64(15) {
		log := newWorld(seed).log(t, 300)
		rng := rand.New(rand.NewPCG(seed, 6))
		whole, first, second := newFSM(), newFSM(), newFSM()
		applyIn(whole, log, rng, 16)
		cut := rng.IntN(len(log))
		applyIn(first, log[:cut], rng, 16)
		snap := snapshotOf(t, first)
		if err := second.Restore(bytes.NewReader(snap)); err != nil {
			t.Fatal(err)
		}
		if got := snapshotOf(t, second); !bytes.Equal(got, snap) {
			t.Fatalf("seed %d: a restored state saves to other bytes", seed)
		}
		applyIn(second, log[cut:], rng, 16)
		if hashOf(t, whole) != hashOf(t, second) {
			t.Fatalf("seed %d: restored at %d and replayed, the state differs", seed, cut)
		}
		checkDerived(t, second.Store().View())
	}
}

func TestWhatIsDerivedIsWhatTheRowsSay(t *testing.T) {
	for seed := range uint64(15) {
		f := newFSM()
		rng := rand.New(rand.NewPCG(seed, 8))
		log := newWorld(seed).log(t, 300)
		for len(log) > 0 {
			n := min(30, len(log))
			applyIn(f, log[:n], rng, 8)
			log = log[n:]
			checkDerived(t, f.Store().View())
		}
	}
}

// checkDriverUses counts the drivers of the nodes again.
func checkDriverUses(t *testing.T, v *state.View) {
	t.Helper()
	want := map[model.DriverUse]int{}
	for n := range v.Nodes() {
		for name, info := range n.Drivers {
			want[model.DriverUse{Driver: name, Hash: info.SchemaHash, Version: info.PluginVersion, Datacenter: n.Datacenter, NodePool: n.NodePool, Detected: info.Detected}]++
		}
	}
	got := 0
	for _, driver := range []string{"raw_exec", "docker"} {
		for _, u := range v.DriverUses(driver) {
			key := *u
			key.Nodes = 0
			if u.Nodes != want[key] {
				t.Fatalf("%+v, but %d nodes have it", *u, want[key])
			}
			got++
		}
	}
	if got != len(want) {
		t.Fatalf("%d uses of drivers, want %d", got, len(want))
	}
	for s := range v.DriverSchemas() {
		if s.UnusedSince != 0 && v.DriverSchemaInUse(s) {
			t.Fatalf("schema %s is in use and marked as unused", s.Hash)
		}
	}
}

// checkDerived computes node usage, summaries and job versions again.
func checkDerived(t *testing.T, v *state.View) {
	t.Helper()
	type usage struct{ cpu, mem, disk int64 }
	used := map[string]usage{}
	groups := map[string]model.TaskGroupSummary{}
	for a := range v.Allocs() {
		if !a.ClientTerminalStatus() {
			r, u := a.AllocatedResources.Comparable(), used[a.NodeID]
			used[a.NodeID] = usage{u.cpu + r.CPUShares, u.mem + r.MemoryMB, u.disk + r.DiskMB}
		}
		if a.Job != nil {
			t.Fatalf("alloc %s holds its job in state", a.ID)
		}
		if j := v.JobByID(a.Namespace, a.JobID); j != nil && !j.Owns(a) {
			continue // of a job that was purged: it counts for nothing of the next of its name
		}
		g := groups[a.JobID]
		switch a.ClientStatus {
		case "pending":
			g.Starting++
		case "running":
			g.Running++
		case "complete":
			g.Complete++
		case "failed":
			g.Failed++
		case "lost":
			g.Lost++
		case "unknown":
			g.Unknown++
		}
		groups[a.JobID] = g
	}
	for a := range v.Allocs() {
		cpu, mem, disk := v.NodeUsed(a.NodeID)
		if got := (usage{cpu, mem, disk}); got != used[a.NodeID] {
			t.Fatalf("node %s uses %v, want %v", a.NodeID, got, used[a.NodeID])
		}
	}
	checkDriverUses(t, v)
	for j := range v.Jobs("") {
		s := v.JobSummary(j.Namespace, j.ID)
		if s == nil {
			t.Fatalf("job %s has no summary", j.ID)
		}
		var children model.JobChildrenSummary
		for _, c := range v.JobChildren(j.Namespace, j.ID) {
			switch c.Status {
			case "pending":
				children.Pending++
			case "running":
				children.Running++
			case "dead":
				children.Dead++
			}
		}
		if *s.Children != children {
			t.Fatalf("the children of job %s are summed up as %+v, want %+v", j.ID, *s.Children, children)
		}
		got := s.Summary["web"]
		got.Queued = 0
		if got != groups[j.ID] {
			t.Fatalf("job %s is summed up as %+v, want %+v", j.ID, got, groups[j.ID])
		}
		live := false
		for _, a := range v.AllocsByJob(j.Namespace, j.ID) {
			live = live || !a.TerminalStatus() && j.Owns(a)
		}
		template := !j.Stop && (j.IsPeriodic() || j.IsParameterized())
		if (live || template) != (j.Status == model.JobStatusRunning) {
			t.Fatalf("job %s is %s, live allocs: %v, template: %v", j.ID, j.Status, live, template)
		}
	}
	for d := range v.Deployments() {
		placed, healthy, unhealthy := 0, 0, 0
		for _, a := range v.AllocsByDeployment(d.ID) {
			placed++
			if a.DeploymentStatus.IsHealthy() && !a.TerminalStatus() && d.Active() {
				healthy++
			}
			if a.DeploymentStatus.IsUnhealthy() && d.Active() {
				unhealthy++
			}
		}
		g := d.TaskGroups["web"]
		// A deployment that is over keeps the counts with which it ended. Allocs that moved to another deployment or were deleted stay counted.
		if g.PlacedAllocs < placed || g.HealthyAllocs < healthy || g.UnhealthyAllocs < unhealthy {
			t.Fatalf("deployment %s counts %+v; its allocs: %d placed, %d healthy, %d unhealthy", d.ID, g, placed, healthy, unhealthy)
		}
	}
}

func TestDamagedEntriesAndSnapshotsNeverPanic(t *testing.T) {
	f := newFSM()
	w := newWorld(99)
	log := w.log(t, 200)
	applyIn(f, log, w.rng, 8)
	before := hashOf(t, f)
	snap := snapshotOf(t, f)
	for range 3000 {
		i := w.rng.IntN(len(log))
		data := bytes.Clone(log[i].Data)
		if len(data) == 0 {
			continue
		}
		for range 1 + w.rng.IntN(4) {
			data[w.rng.IntN(len(data))] = byte(w.rng.Uint32())
		}
		g := newFSM()
		e := log[i]
		e.Data = data
		g.ApplyBatch(append(log[:3:3], e))
	}
	for range 200 {
		bad := bytes.Clone(snap)
		for range 1 + w.rng.IntN(3) {
			bad[w.rng.IntN(len(bad))] = byte(w.rng.Uint32())
		}
		if w.rng.IntN(2) == 0 {
			bad = bad[:w.rng.IntN(len(bad))]
		}
		if err := newFSM().Restore(bytes.NewReader(bad)); err != nil {
			continue
		}
	}
	for cut := range len(snap) {
		if cut%97 == 0 && f.Restore(bytes.NewReader(snap[:cut])) == nil {
			t.Fatalf("a snapshot cut at %d of %d bytes was accepted", cut, len(snap))
		}
	}
	if hashOf(t, f) != before {
		t.Fatal("a refused snapshot changed the state")
	}
}
