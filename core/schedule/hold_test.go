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
)

// TestNothingIsPlacedBeforeWhatItDependsOnAndEveryWaitEnds drives three jobs that depend on
// each other through random events. After every evaluation: a version whose group has had no
// alloc gets one only if what it depends on is as the condition says in the state on which
// that was decided, and past its limit nothing waits for it.
func TestNothingIsPlacedBeforeWhatItDependsOnAndEveryWaitEnds(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomDependencies(t, rand.New(rand.NewPCG(seed, 11))) })
	}
}

func randomDependencies(t *testing.T, r *rand.Rand) {
	s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0)}
	pick := func(xs ...string) string { return xs[r.IntN(len(xs))] }
	do := func(line string) { _ = s.line(line) } // an alloc that does not exist is no event
	for i := range 3 {
		do(fmt.Sprintf("node n%d", i))
	}
	kinds := map[string]string{"a": pick("service", "batch", "system", "sysbatch"), "b": pick("service", "batch", "system", "sysbatch"), "c": "batch"}
	before := map[string]string{"b": "a", "c": "b"}
	for range 40 {
		job := pick("a", "b", "c")
		switch r.IntN(8) {
		case 0, 1:
			spec := fmt.Sprintf("job %s type=%s count=%d env=%d", job, kinds[job], r.IntN(2), r.IntN(3)) + pick("", " parallel=1", " parallel=1 canary=1") + pick("", " then="+pick("started", "healthy", "complete")+pick("", ":1m"))
			if on := before[job]; on != "" {
				spec += pick("", " depends="+on+":"+pick("started", "healthy", "complete")+pick("", ":1m", ":5m"))
			}
			do(spec)
		case 2, 3:
			do("alloc " + job + "." + pick("g", "h") + "[0] status=" + pick("running", "failed", "complete"))
		case 4:
			do("alloc all status=running healthy=" + pick("true", "false"))
		case 5:
			do(fmt.Sprintf("node n%d status=%s", r.IntN(3), pick("ready", "down")))
		case 6:
			do("wait " + pick("10s", "40s", "2m"))
		case 7:
			if s.v.JobByID("", job) != nil && r.IntN(3) == 0 {
				do("stop " + job)
			}
		}
		for _, j := range []string{"a", "b", "c"} {
			if s.v.JobByID("", j) != nil {
				checkHolds(t, s, j)
			}
		}
		settle(s)
	}
}

func checkHolds(t *testing.T, s *script, id string) {
	t.Helper()
	job := s.v.JobByID("", id)
	e := &model.Evaluation{ID: s.ids.NewID(), Namespace: "default", JobID: id, Type: job.Type, Status: "pending"}
	o := schedule.Process(s.v, e, s.now, &s.ids)
	for _, a := range o.Plan.Place {
		if a.JobVersion != job.Version || slices.ContainsFunc(s.v.AllocsByJob("", id), func(b *model.Allocation) bool {
			return b.TaskGroup == a.TaskGroup && sameEnv(s, b, job)
		}) {
			continue // what runs goes on, or the group has begun
		}
		tg := job.LookupTaskGroup(a.TaskGroup)
		for _, d := range job.DependsOn {
			if on := s.v.JobByID("", d.Name); on == nil || on.Stop || !asSaid(s, on, on.TaskGroups, d.Condition) {
				t.Fatalf("%s of version %d is placed before %s", a.Name, a.JobVersion, d.On("job"))
			}
		}
		for _, d := range tg.DependsOn {
			if !asSaid(s, job, []*model.TaskGroup{job.LookupTaskGroup(d.Name)}, d.Condition) {
				t.Fatalf("%s of version %d is placed before %s", a.Name, a.JobVersion, d.On("group"))
			}
		}
	}
	waits := o.Blocked
	if waits != nil {
		for group, h := range waits.Held {
			if h.Over || !h.Until.IsZero() && !s.now.Before(h.Until) {
				t.Fatalf("group %s of %s waits past its limit: %+v", group, id, h)
			}
			limit := time.Duration(0)
			for _, d := range slices.Concat(job.DependsOn, job.LookupTaskGroup(group).DependsOn) {
				limit = max(limit, d.Timeout)
			}
			if limit > 0 && h.Until.After(time.Unix(0, job.SubmitTime).Add(limit)) {
				t.Fatalf("group %s of %s waits until %s", group, id, h.Until)
			}
		}
	}
	s.v.apply(o.Plan)
	settle(s)
	if again := schedule.Process(s.v, e, s.now, &s.ids); len(again.Plan.Change)+len(again.Plan.Place) > 0 && len(o.FailedTGAllocs) == 0 {
		t.Fatalf("a second evaluation of %s changes something: %d placed, %+v", id, len(again.Plan.Place), again.Plan.Change)
	}
}

// sameEnv reports whether an alloc has run what the job's newest version runs. In these
// scripts versions differ in the environment only.
func sameEnv(s *script, a *model.Allocation, job *model.Job) bool {
	old := s.v.JobOf(a)
	was, is := old.LookupTaskGroup(a.TaskGroup), job.LookupTaskGroup(a.TaskGroup)
	return was != nil && is != nil && was.Tasks[0].Env["V"] == is.Tasks[0].Env["V"]
}

// asSaid reports whether each group has its count of allocs that are as a condition says; of
// a job that runs on every node, at least one. It is told apart from core/schedule/reconcile.
func asSaid(s *script, job *model.Job, groups []*model.TaskGroup, condition string) bool {
	for _, tg := range groups {
		n := 0
		for _, a := range s.v.AllocsByJob("", job.ID) {
			if a.TaskGroup != tg.Name || a.ServerTerminalStatus() || a.NextAllocation != "" || !sameEnv(s, a, job) {
				continue
			}
			runs := a.ClientStatus == "running"
			well := a.DeploymentStatus.IsHealthy() || a.DeploymentID == "" && !a.DeploymentStatus.IsUnhealthy()
			if a.ClientStatus == "complete" || runs && condition == "started" || runs && condition == "healthy" && well {
				n++
			}
		}
		if n < tg.Count {
			return false
		}
	}
	return true
}
