// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
)

// TestNamesOfNodesAndMoreOfThemCostNoPlacement drives random clusters of service and batch
// jobs. Each evaluation is also made on a view whose nodes have each other's ids, which must
// place, stop and queue the same numbers, and on one with one more node, which must not queue
// more.
func TestNamesOfNodesAndMoreOfThemCostNoPlacement(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compareViews(t, rand.New(rand.NewPCG(seed, 99))) })
	}
}

func compareViews(t *testing.T, r *rand.Rand) {
	s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0)}
	pick := func(xs ...string) string { return xs[r.IntN(len(xs))] }
	do := func(line string) { _ = s.line(line) } // an alloc that does not exist is no event
	if r.IntN(3) == 0 {
		do("config preemption=service,batch algorithm=" + pick("binpack", "spread"))
	}
	keeps := map[int]string{} // what a node keeps when it registers again
	for i := range 8 {
		keeps[i] = fmt.Sprintf(" gpus=%d max_allocs=%s cpu=%d mem=%d numa=%d dc=%s", r.IntN(3), pick("0", "0", "3"), 500+r.IntN(2000), 500+r.IntN(3000), r.IntN(3), pick("dc1", "dc2"))
	}
	node := func(i int, status string) string {
		return fmt.Sprintf("node n%d meta.rack=r%d status=%s", i, i%3, status) + keeps[i]
	}
	for i := range 2 + r.IntN(6) {
		do(node(i, "ready"))
	}
	for range 15 {
		job := pick("a", "b", "d")
		switch r.IntN(7) {
		case 0, 1, 2:
			do(randomJob(r, job))
		case 3:
			do("alloc " + job + ".g[" + fmt.Sprint(r.IntN(4)) + "] status=" + pick("running", "failed", "complete"))
		case 4:
			do("alloc all status=running healthy=" + pick("true", "true", "false"))
		case 5:
			do(node(r.IntN(8), pick("ready", "ready", "down", "disconnected")))
		case 6:
			do("alloc " + job + ".g[0] migrate=true")
		}
		for _, id := range []string{"a", "b", "d"} {
			if s.v.JobByID("", id) != nil {
				compareOne(t, s, r, id)
			}
		}
		settle(s)
	}
}

// randomJob is a line that registers a service or batch job.
func randomJob(r *rand.Rand, id string) string {
	pick := func(xs ...string) string { return xs[r.IntN(len(xs))] }
	spec := fmt.Sprintf("job %s type=%s count=%d cpu=%d mem=%d env=%d", id, map[string]string{"a": "service", "b": "batch", "d": "service"}[id], r.IntN(9), 100+100*r.IntN(4), 100+100*r.IntN(9), r.IntN(3))
	return spec + pick("", " parallel=1", " parallel=2 canary=1", " parallel=1 resources=in_place") + pick("", " port=http", " port=http:8080") +
		pick("", " cores=1", " cores=2 numa=require", " cores=3 numa=prefer") + pick("", " gpus=1", " gpus=2") + pick("", " priority=20", " priority=70") +
		pick("", " constraint=,distinct_hosts", " constraint=${meta.rack},distinct_property,2", " constraint=${meta.rack},=,r1", " job_constraint=,distinct_hosts") +
		pick("", " spread=${meta.rack}", " spread=${meta.rack},r1:70,r2:30") + pick("", " affinity=${meta.rack},r2,50") + pick("", " reschedule=30s") +
		pick("", " lost_after=1m", " lost_after=1m replace=false") + pick("", " sticky=1") + pick("", " dc=dc1")
}

func compareOne(t *testing.T, s *script, r *rand.Rand, job string) {
	t.Helper()
	e := &model.Evaluation{ID: s.ids.NewID(), Namespace: "default", JobID: job, Type: s.v.JobByID("", job).Type, Status: "pending"}
	on := func(v *memView) *schedule.Outcome {
		ids := s.ids
		return schedule.Process(v, e, s.now, &ids)
	}
	o := on(s.v)
	if got, want := numbers(on(renamed(s.v, r))), numbers(o); got != want {
		t.Fatalf("job %s: with other ids of the nodes\n%s\nnot\n%s", job, got, want)
	}
	more := *s.v
	more.nodes = maps.Clone(s.v.nodes)
	more.nodes["z"] = parseNode("z", map[string]string{"cpu": fmt.Sprint(100 + r.IntN(3000)), "gpus": "2", "meta.rack": "r9", "dc": "dc1"})
	if got, had := on(&more).QueuedAllocations["g"], o.QueuedAllocations["g"]; got > had {
		t.Fatalf("job %s: %d allocs find no place, and %d with one more node", job, had, got)
	}
	o = schedule.Process(s.v, e, s.now, &s.ids)
	s.v.apply(o.Plan)
	settle(s)
}

// numbers says how much of each an outcome does. Which allocs make room by preemption, and so
// how many of them, depends on the nodes.
func numbers(o *schedule.Outcome) string {
	changes := map[string]int{}
	for _, c := range o.Plan.Change {
		if c.PreemptedBy == "" {
			changes[fmt.Sprint(c.Kind, " ", c.Description, c.ClientStatus)]++
		}
	}
	updates := *o.Annotations.DesiredTGUpdates["g"]
	updates.Preemptions = 0
	return fmt.Sprintf("%s, %d placed, queued %v, changes %v, %+v", o.Eval.Status, len(o.Plan.Place), o.QueuedAllocations, changes, updates)
}

// renamed returns the view as if the nodes had each other's ids.
func renamed(v *memView, r *rand.Rand) *memView {
	ids := slices.Sorted(maps.Keys(v.nodes))
	other := map[string]string{}
	for i, k := range r.Perm(len(ids)) {
		other[ids[i]] = ids[k]
	}
	out := *v
	out.nodes, out.allocs = map[string]*model.Node{}, map[string]*model.Allocation{}
	for id, n := range v.nodes {
		c := n.Copy()
		c.ID = other[id]
		out.nodes[c.ID] = c
	}
	for id, a := range v.allocs {
		c := a.Copy()
		c.NodeID = other[a.NodeID]
		if c.RescheduleTracker != nil {
			for _, e := range c.RescheduleTracker.Events {
				e.PrevNodeID = other[e.PrevNodeID]
			}
		}
		out.allocs[id] = c
	}
	return &out
}
