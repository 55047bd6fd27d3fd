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
	"github.com/drover-project/drover/core/schedule/feasible"
)

// TestRandomClusters drives small random clusters through random events. After
// every evaluation: the plan fits by the function that the applier uses, no
// node is over capacity or its largest number of allocs, no port, core or device has two
// holders, nothing is preempted by a job whose
// priority is not higher by 10, and, if nothing lacked room, evaluating again does nothing.
func TestRandomClusters(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomCluster(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func randomCluster(t *testing.T, r *rand.Rand) {
	s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0)}
	pick := func(xs ...string) string { return xs[r.IntN(len(xs))] }
	do := func(line string) { _ = s.line(line) } // an alloc that does not exist is no event
	if r.IntN(2) == 0 {
		do("config preemption=service,batch,system")
	}
	more := map[int]string{} // what a node keeps when it registers again
	for i := range 6 {
		more[i] = fmt.Sprintf(" gpus=%d max_allocs=%s", r.IntN(3), pick("0", "0", "3", "5"))
	}
	for i := range 2 + r.IntN(6) {
		do(fmt.Sprintf("node n%d cpu=%d meta.rack=r%d numa=%d", i, 500+r.IntN(2000), i%3, r.IntN(3)) + more[i])
	}
	for range 25 {
		job := pick("a", "b", "c")
		switch r.IntN(7) {
		case 0, 1:
			spec := fmt.Sprintf("job %s type=%s count=%d cpu=%d env=%d", job, map[string]string{"a": "service", "b": "batch", "c": "system"}[job], r.IntN(6), 100+100*r.IntN(4), r.IntN(3))
			spec += pick("", " parallel=1", " parallel=2 canary=1") + pick("", " port=http", " port=http:8080", " cores=1", " cores=2 numa=require", " cores=3 numa=prefer", " gpus=1", " gpus=2") +
				pick("", " priority=20", " priority=41", " priority=70") + pick("", " constraint=,distinct_hosts", " constraint=${meta.rack},distinct_property,2") + pick("", " spread=${meta.rack}") +
				pick("", " reschedule=30s function=exponential") + pick("", " lost_after=1m")
			do(spec)
		case 2:
			do("alloc " + job + ".g[" + fmt.Sprint(r.IntN(4)) + "] status=" + pick("running", "failed", "complete"))
		case 3:
			do("alloc all status=running healthy=true")
		case 4:
			i := r.IntN(6)
			do(fmt.Sprintf("node n%d cpu=2000 meta.rack=r1 status=%s", i, pick("ready", "down", "disconnected")) + more[i])
		case 5:
			do("wait 40s")
		case 6:
			do("alloc " + job + ".g[0] migrate=true")
		}
		for _, j := range []string{"a", "b", "c"} {
			if s.v.JobByID("", j) != nil {
				evaluate(t, s, j)
			}
		}
		settle(s)
	}
}

// settle has nodes end what they were asked to stop.
func settle(s *script) {
	for _, a := range s.v.where(func(a *model.Allocation) bool { return a.ServerTerminalStatus() && !a.ClientTerminalStatus() }) {
		c := a.Copy()
		c.ClientStatus = "complete"
		s.v.allocs[c.ID] = c
	}
}

func evaluate(t *testing.T, s *script, job string) {
	t.Helper()
	e := &model.Evaluation{ID: s.ids.NewID(), Namespace: "default", JobID: job, Type: s.v.JobByID("", job).Type, Status: "pending"}
	o := schedule.Process(s.v, e, s.now, &s.ids)
	fits(t, s, o.Plan)
	before := maps.Clone(s.v.allocs)
	s.v.apply(o.Plan)
	settle(s)
	sound(t, s)
	again := schedule.Process(s.v, e, s.now, &s.ids)
	if unproven(s, job) {
		return
	}
	if len(o.FailedTGAllocs) > 0 {
		return // an update that came later may have made the room that was lacking
	}
	if n := len(again.Plan.Change) + len(again.Plan.Place); n > 0 {
		s.tell(job, o, before)
		s.tell(job, again, s.v.allocs)
		t.Fatalf("a second evaluation changes something:\n%s", s.out.String())
	}
}

// unproven reports whether a system job has allocs of several older versions. None of them is
// stable here, and which of them other nodes get depends on what is left of them.
func unproven(s *script, id string) bool {
	job, old := s.v.JobByID("", id), map[uint64]bool{}
	for _, a := range s.v.AllocsByJob("", id) {
		if a.JobVersion < job.Version {
			old[a.JobVersion] = true
		}
	}
	return job.Type == model.JobTypeSystem && len(old) > 1
}

func fits(t *testing.T, s *script, p *model.Plan) {
	t.Helper()
	for _, ch := range p.Change {
		if ch.PreemptedBy == "" {
			continue
		}
		a := s.v.AllocByID(ch.AllocID)
		if low := s.v.JobByID("", a.JobID).Priority; low+10 > p.Job.Priority || a.TerminalStatus() {
			t.Fatalf("a job of priority %d preempts %s of priority %d, %s", p.Job.Priority, a.Name, low, a.ClientStatus)
		}
		if !slices.ContainsFunc(p.PreemptionEvals, func(e *model.Evaluation) bool { return e.JobID == a.JobID }) {
			t.Fatalf("no evaluation for %s, which is preempted", a.JobID)
		}
	}
	for id := range s.v.nodes {
		c := feasible.Change{}
		for _, a := range p.Place {
			if a.NodeID == id {
				c.Place = append(c.Place, a)
			}
		}
		for _, ch := range p.Change {
			if a := s.v.AllocByID(ch.AllocID); ch.Kind == model.AllocStop && a.NodeID == id {
				c.Stop = append(c.Stop, a)
			}
		}
		if why := feasible.Fits(s.v, s.v.NodeByID(id), c); why != "" {
			t.Fatalf("the applier would refuse node %s: %s", id, why)
		}
	}
}

func sound(t *testing.T, s *script) {
	t.Helper()
	if s.held == nil {
		s.held, s.crowds = map[string]int64{}, map[string]int{}
	}
	for n := range s.v.Nodes() {
		cpu, _, _ := s.v.NodeUsed(n.ID)
		held, count := map[string]bool{}, 0
		hold := func(format string, what any) {
			key := fmt.Sprintf(format, what)
			if held[key] {
				t.Fatalf("node %s: %s has two holders", n.ID, key)
			}
			held[key] = true
		}
		for _, a := range s.v.AllocsByNode(n.ID) {
			if a.ClientTerminalStatus() {
				continue
			}
			count++
			for _, p := range a.AllocatedResources.Shared.Ports {
				hold("port %d", p.Value)
			}
			task := a.AllocatedResources.Tasks["t"]
			for _, c := range task.Cpu.ReservedCores {
				hold("core %d", c)
			}
			for _, d := range task.Devices {
				for _, id := range d.DeviceIDs {
					hold("device %s", id)
				}
			}
		}
		if had := s.held[n.ID]; cpu > n.NodeResources.Cpu.CpuShares && cpu > had {
			t.Fatalf("node %s holds %d MHz of %d, before %d", n.ID, cpu, n.NodeResources.Cpu.CpuShares, had)
		}
		if had := s.crowds[n.ID]; n.NodeMaxAllocs > 0 && count > n.NodeMaxAllocs && count > had {
			t.Fatalf("node %s holds %d allocs of %d, before %d", n.ID, count, n.NodeMaxAllocs, had)
		}
		s.held[n.ID], s.crowds[n.ID] = cpu, count
	}
}
