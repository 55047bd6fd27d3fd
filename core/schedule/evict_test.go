// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/schedule/preempt"
)

// TestPreemptionCostsAsLittleAsPossible places one alloc on random full clusters. What is
// preempted costs as much as the cheapest of all sets of all nodes with which the alloc
// fits by the applier's rule.
func TestPreemptionCostsAsLittleAsPossible(t *testing.T) {
	preempted, impossible := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		pick := func(xs ...string) string { return xs[r.IntN(len(xs))] }
		s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0)}
		do := func(line string) { _ = s.line(line) } // "alloc" fails if there is none yet
		do("config preemption=service")
		for i := range 1 + r.IntN(4) {
			do(fmt.Sprintf("node n%d cpu=%d gpus=%d max_allocs=%s", i, 1000+r.IntN(3000), r.IntN(3), pick("0", "0", "3")))
		}
		for i := range 6 {
			id := fmt.Sprint("low", i)
			do(fmt.Sprintf("job %s priority=%d count=%d cpu=%d %s", id, 10+10*r.IntN(5), 1+r.IntN(4), 100*(1+r.IntN(9)), pick("", "port=http:80", "cores=1", "cores=2", "gpus=1", "port=http:81")))
			do("run " + id)
			do("alloc all status=running")
			settle(s)
		}
		do(fmt.Sprintf("job high priority=50 cpu=%d %s", 100*(1+r.IntN(12)), pick("", "", "port=http:80", "cores=2", "gpus=2", "gpus=1 port=http:81")))
		job := s.v.JobByID("", "high")
		want, can := cheapestByForce(s.v, job)
		eval := &model.Evaluation{ID: "e", Namespace: "default", JobID: "high", Type: job.Type, Priority: 50, Status: "pending"}
		o := schedule.Process(s.v, eval, s.now, &s.ids)
		fits(t, s, o.Plan)
		var got preempt.Set
		for _, ch := range o.Plan.Change {
			p := s.v.JobByID("", s.v.AllocByID(ch.AllocID).JobID).Priority
			got.Holders = append(got.Holders, preempt.Holder{Priority: p})
			got.Top, got.Sum = max(got.Top, p), got.Sum+p
		}
		if placed := len(o.Plan.Place) == 1; placed != can || placed && got.Compare(&want) != 0 {
			t.Fatalf("seed %d: placed %v by preempting %d allocs, up to priority %d, in sum %d; by force %v, %d, %d, %d", seed,
				placed, len(got.Holders), got.Top, got.Sum, can, len(want.Holders), want.Top, want.Sum)
		}
		switch {
		case len(got.Holders) > 0:
			preempted++
		case !can:
			impossible++
		}
	}
	if preempted < 50 || impossible < 10 {
		t.Errorf("only %d clusters had to preempt, and %d could not", preempted, impossible)
	}
}

// cheapestByForce tries every set of allocs of every node.
func cheapestByForce(v *memView, job *model.Job) (best preempt.Set, ok bool) {
	tg := job.TaskGroups[0]
	for n := range v.Nodes() {
		if feasible.NewChecker(job, tg).Check(n) != "" {
			continue
		}
		var low []*model.Allocation
		for _, a := range v.AllocsByNode(n.ID) {
			if job.MayPreempt(v.JobByID("", a.JobID)) && !a.TerminalStatus() {
				low = append(low, a)
			}
		}
		for mask := range 1 << len(low) {
			var s preempt.Set
			gone := map[string]bool{}
			var stop []*model.Allocation
			for i, a := range low {
				if mask&(1<<i) != 0 {
					p := v.JobByID("", a.JobID).Priority
					s.Holders = append(s.Holders, preempt.Holder{Priority: p})
					s.Top, s.Sum = max(s.Top, p), s.Sum+p
					gone[a.ID], stop = true, append(stop, a)
				}
			}
			if ok && s.Compare(&best) >= 0 {
				continue
			}
			res, why := feasible.Assign(feasible.NewChecker(job, tg), feasible.UsageOf(n, feasible.Holders(v, n.ID, gone)), tg, n, "", false)
			if why == "" && feasible.Fits(v, n, feasible.Change{Stop: stop, Place: []*model.Allocation{{ID: "new", Namespace: "default", JobID: job.ID, NodeID: n.ID, TaskGroup: "g", AllocatedResources: res}}}) == "" {
				best, ok = s, true
			}
		}
	}
	return best, ok
}

// TestNoUseIsMadeOfRoomThatIsOnlyLent places several groups one after another: what the
// search for the first saw as room is not room for the second.
func TestNoUseIsMadeOfRoomThatIsOnlyLent(t *testing.T) {
	s := playOn(t, "config preemption=service", "node n1 cpu=1000", "node n2 cpu=1000", "job low priority=20 count=2 cpu=1000", "run low",
		"alloc all status=running", "job high priority=50 cpu=500")
	job := s.v.JobByID("", "high")
	second := *job.TaskGroups[0]
	second.Name = "h"
	job.TaskGroups = append(job.TaskGroups, &second)
	eval := &model.Evaluation{ID: "e", Namespace: "default", JobID: "high", Type: job.Type, Priority: 50, Status: "pending", AnnotatePlan: true}
	o := schedule.Process(s.v, eval, s.now, &s.ids)
	fits(t, s, o.Plan)
	if len(o.Plan.Place) != 2 || len(o.Plan.Change) != 1 || o.Plan.Place[0].NodeID != o.Plan.Place[1].NodeID {
		t.Errorf("%d allocs are placed, %d changed; both fit in the place of one", len(o.Plan.Place), len(o.Plan.Change))
	}
	u := o.Annotations
	if len(u.PreemptedAllocs) != 1 || u.PreemptedAllocs[0].JobID != "low" || u.PreemptedAllocs[0].JobType != "service" || u.DesiredTGUpdates["g"].Preemptions != 1 || u.DesiredTGUpdates["h"].Preemptions != 0 {
		t.Errorf("the plan says %+v", u)
	}
	if i := slices.IndexFunc(o.Plan.PreemptionEvals, func(e *model.Evaluation) bool {
		return e.JobID == "low" && e.Priority == 20 && e.TriggeredBy == "preemption"
	}); i != 0 || len(o.Plan.PreemptionEvals) != 1 {
		t.Errorf("the evaluations are %+v", o.Plan.PreemptionEvals)
	}
}
