// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/explain"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

type ids struct{ n int }

func (i *ids) NewID() string { i.n++; return fmt.Sprintf("%08d-0000-0000-0000-000000000000", i.n) }

// bench is a state with a node and a job for which the node is too small.
type bench struct {
	*state.Store
	t   *testing.T
	ids ids
}

func newBench(t *testing.T) *bench {
	b := &bench{Store: state.New(), t: t}
	n := &model.Node{
		ID: "n1000000-0000-0000-0000-000000000000", Name: "one", Datacenter: "dc1", NodePool: "default", Status: model.NodeStatusReady,
		SchedulingEligibility: model.NodeSchedulingEligible, Attributes: map[string]string{"driver.raw_exec": "1"},
		NodeResources: &model.NodeResources{Cpu: model.NodeCpuResources{CpuShares: 1000}, Memory: model.NodeMemoryResources{MemoryMB: 1000}, Disk: model.NodeDiskResources{DiskMB: 1000}},
	}
	n.ComputedClass = n.ComputeClass()
	job := &model.Job{Namespace: "default", ID: "web", Type: model.JobTypeService, Priority: 50, NodePool: "default", Datacenters: []string{"*"}, TaskGroups: []*model.TaskGroup{{
		Name: "g", Count: 3, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Resources: &model.Resources{CPU: 400, MemoryMB: 100}}},
		Update:           &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: time.Hour},
		ReschedulePolicy: &model.ReschedulePolicy{Attempts: 1, Interval: time.Hour, Delay: 30 * time.Second, DelayFunction: "constant"},
	}}}
	b.update(func(tx *state.Tx) error {
		tx.UpsertJob(job, nil)
		tx.RegisterNode(n)
		return nil
	})
	return b
}

func (b *bench) update(f func(*state.Tx) error) {
	b.t.Helper()
	if err := b.Update(b.View().Index()+1, f); err != nil {
		b.t.Fatal(err)
	}
}

// run carries an evaluation out, and stores what comes of it.
func (b *bench) run() *schedule.Outcome {
	b.t.Helper()
	eval := model.NewEvaluation(b.ids.NewID(), model.EvalTriggerJobRegister, b.View().JobByID("default", "web"), now)
	out := schedule.Process(b.View(), eval, now, &b.ids)
	b.update(func(tx *state.Tx) error {
		if out.Plan.Deployment != nil {
			tx.UpsertDeployment(out.Plan.Deployment, now.UnixNano())
		}
		for _, a := range out.Plan.Place {
			tx.PlaceAlloc(a, now.UnixNano())
		}
		tx.UpsertEval(out.Eval)
		if out.Blocked != nil {
			tx.UpsertEval(out.Blocked)
		}
		return nil
	})
	return out
}

func (b *bench) explain(at time.Time) explain.Of {
	return explain.Of{View: b.View(), Now: at, IDs: &b.ids}
}

// says fails unless the sentences contain each of the texts.
func says(t *testing.T, x *model.Explanation, texts ...string) {
	t.Helper()
	all := strings.Join(x.Says, "\n")
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("%q is not in\n%s", text, all)
		}
	}
}

func TestAJobSaysWhatFindsNoPlaceAndWhatWouldHelp(t *testing.T) {
	b := newBench(t)
	out := b.run()
	x := b.explain(now).Job(b.View().JobByID("default", "web"))
	says(t, x, `Group "g": 1 allocations find no place on 1 nodes: too little cpu (1).`, `It would help: cpu of task "t": 200 instead of 400.`,
		"Evaluation "+out.Blocked.ID[:8]+" (queued-allocs) is blocked.", `Group "g": 0 of 3 allocations are healthy, the health of 2 is not known yet, and some find no place`)
	if len(x.Groups) != 1 || x.Groups[0].Missing != 1 {
		t.Errorf("%+v", x.Groups)
	}
	b.update(func(tx *state.Tx) error { return tx.StopJob("default", "web", now.UnixNano()) })
	x = b.explain(now).Job(b.View().JobByID("default", "web"))
	says(t, x, "The job is stopped")
	if len(x.Groups) != 0 {
		t.Errorf("%+v", x.Groups)
	}
}

func TestAnEvaluationSaysWhatItWaitsFor(t *testing.T) {
	b := newBench(t)
	out := b.run()
	says(t, b.explain(now).Eval(out.Blocked), `It waits for room for 1 allocations of group "g".`, "It is tried again when something ends on one of 1 nodes (of 1)", "It would help: cpu of task")
	says(t, b.explain(now).Eval(out.Eval), "It was carried out at 2026-11-24T12:00:00Z", "Evaluation "+out.Blocked.ID[:8]+" waits for room for them.")

	job := b.View().JobByID("default", "web")
	first, second, later := model.NewEvaluation("e1", "job-register", job, now), model.NewEvaluation("e2", "node-update", job, now), model.NewEvaluation("e3", "alloc-failure", job, now)
	later.WaitUntil, later.StatusDescription = now.Add(time.Minute), "created for delayed rescheduling"
	for _, e := range []*model.Evaluation{first, second, later} {
		b.update(func(tx *state.Tx) error { tx.UpsertEval(e); return nil })
	}
	says(t, b.explain(now).Eval(first), "It waits for a worker")
	says(t, b.explain(now).Eval(second), "It waits for evaluation e1")
	says(t, b.explain(now).Eval(later), "It waits until 2026-11-24T12:01:00Z: created for delayed rescheduling.")
	b.update(func(tx *state.Tx) error {
		c := *b.View().SchedulerConfig()
		c.PauseEvalBroker = true
		tx.SetSchedulerConfig(&c)
		return nil
	})
	says(t, b.explain(now).Eval(first), "The scheduler is paused")
}

func TestADeploymentSaysWhyItStandsStill(t *testing.T) {
	b := newBench(t)
	out := b.run()
	id := out.Plan.Deployment.ID
	no := false
	unhealthy := func(a *model.Allocation) {
		b.update(func(tx *state.Tx) error {
			return tx.UpdateAllocFromClient(&model.AllocReport{ID: a.ID, ClientStatus: model.AllocClientStatusRunning, Health: &model.HealthReport{DeploymentID: id, Healthy: no}}, now.UnixNano())
		})
	}
	unhealthy(out.Plan.Place[0])
	d := func() *model.Explanation { return b.explain(now).Deployment(b.View().DeploymentByID(id)) }
	says(t, d(), "Allocation "+out.Plan.Place[0].ID[:8]+" is unhealthy, and is replaced at 2026-11-24T12:00:30Z.", "the deployment fails at 2026-11-24T13:00:00Z")
	b.update(func(tx *state.Tx) error {
		return tx.UpdateDeploymentStatus(&model.DeploymentStatusUpdate{DeploymentID: id, Status: model.DeploymentStatusPaused, UpdatedAt: now.UnixNano()})
	})
	says(t, d(), "It is paused")
	b.update(func(tx *state.Tx) error {
		return tx.UpdateDeploymentStatus(&model.DeploymentStatusUpdate{DeploymentID: id, Status: model.DeploymentStatusFailed, StatusDescription: "because", UpdatedAt: now.UnixNano()})
	})
	says(t, d(), "It is failed: because.")
}

func TestAnAllocSaysWhyItIsWhereItIsAndWhatComes(t *testing.T) {
	b := newBench(t)
	out := b.run()
	a := out.Plan.Place[0]
	says(t, b.explain(now).Alloc(b.View().AllocByID(a.ID)), "It is on node one", "1 nodes were considered.", "was the best with a score of", "Its node has not started its tasks yet")
	b.update(func(tx *state.Tx) error {
		return tx.UpdateAllocFromClient(&model.AllocReport{ID: a.ID, ClientStatus: model.AllocClientStatusFailed}, now.UnixNano())
	})
	says(t, b.explain(now).Alloc(b.View().AllocByID(a.ID)), "It is replaced at 2026-11-24T12:00:30Z, as its reschedule block says.")
	b.update(func(tx *state.Tx) error {
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: a.ID, Description: "no longer wanted"}, "e", now.UnixNano())
	})
	says(t, b.explain(now).Alloc(b.View().AllocByID(a.ID)), "Servers have it end: no longer wanted.")
}

func TestANodeSaysWhatItHasLeftAndWhyWaitingWorkDoesNotRunThere(t *testing.T) {
	b := newBench(t)
	b.run()
	n := b.View().NodeByID("n1000000-0000-0000-0000-000000000000")
	says(t, b.explain(now).Node(n), "It takes allocations.", "cpu: 800 of 1000 MHz are taken, 200 are free.", "It has 2 allocations.",
		`Group "g" of job "web" waits for room; here: too little cpu, cpu 400 asked, 200 free.`)
	c := n.Copy()
	c.SchedulingEligibility = model.NodeSchedulingIneligible
	says(t, b.explain(now).Node(c), "It takes no allocations: it is not eligible")
}

func TestAJobDoesNotSayThatAllIsPlacedWhileAFailedDeploymentPlacesNothing(t *testing.T) {
	b := newBench(t)
	out := b.run()
	job := func() *model.Explanation { return b.explain(now).Job(b.View().JobByID("default", "web")) }
	b.update(func(tx *state.Tx) error {
		return tx.UpdateDeploymentStatus(&model.DeploymentStatusUpdate{DeploymentID: out.Plan.Deployment.ID, Status: model.DeploymentStatusFailed, StatusDescription: "because", UpdatedAt: now.UnixNano()})
	})
	says(t, job(), `Group "g": 1 allocations are lacking that nothing places now; 0 of 1 nodes could take one more.`,
		"A version whose deployment has failed gets no allocations that it never had; those that fail or are lost are still replaced. Register a changed job, or go back with drover job revert.")
	if all := strings.Join(job().Says, "\n"); strings.Contains(all, "a place for every allocation") || job().Groups[0].Absent != 1 {
		t.Errorf("one of 3 is lacking:\n%s", all)
	}
}

func TestAJobSaysWhenAFailedAllocOfAFailedDeploymentIsReplaced(t *testing.T) {
	b := newBench(t)
	out := b.run()
	b.update(func(tx *state.Tx) error {
		if err := tx.UpdateDeploymentStatus(&model.DeploymentStatusUpdate{DeploymentID: out.Plan.Deployment.ID, Status: model.DeploymentStatusFailed, UpdatedAt: now.UnixNano()}); err != nil {
			return err
		}
		return tx.UpdateAllocFromClient(&model.AllocReport{ID: out.Plan.Place[0].ID, ClientStatus: model.AllocClientStatusFailed}, now.UnixNano())
	})
	says(t, b.explain(now).Job(b.View().JobByID("default", "web")), "Allocation "+out.Plan.Place[0].ID[:8]+" has failed. It is replaced")
}

func TestAJobNamesTheFailedAllocsThatNothingReplaces(t *testing.T) {
	b := newBench(t)
	job := *b.View().JobByID("default", "web")
	for _, kind := range []string{model.JobTypeSystem, model.JobTypeSysBatch} {
		b := newBench(t)
		job := *b.View().JobByID("default", "web")
		job.Type, job.TaskGroups = kind, []*model.TaskGroup{job.TaskGroups[0].Copy()}
		job.TaskGroups[0].Count, job.TaskGroups[0].Update, job.TaskGroups[0].ReschedulePolicy = 1, nil, nil
		b.update(func(tx *state.Tx) error { tx.UpsertJob(&job, nil); return nil })
		placed := b.run().Plan.Place[0]
		b.update(func(tx *state.Tx) error {
			return tx.UpdateAllocFromClient(&model.AllocReport{ID: placed.ID, ClientStatus: model.AllocClientStatusFailed}, now.UnixNano())
		})
		says(t, b.explain(now).Job(b.View().JobByID("default", "web")), `Group "g": 1 allocations are lacking that nothing places now; 0 of 1 nodes could take one more.`,
			"Allocation "+placed.ID[:8]+" has failed. Nothing replaces it: ")
	}
	job.Type, job.TaskGroups = model.JobTypeBatch, []*model.TaskGroup{job.TaskGroups[0].Copy()}
	job.TaskGroups[0].Count, job.TaskGroups[0].Update, job.TaskGroups[0].ReschedulePolicy.Attempts = 1, nil, 0
	b.update(func(tx *state.Tx) error { tx.UpsertJob(&job, nil); return nil })
	placed := b.run().Plan.Place[0]
	says(t, b.explain(now).Job(b.View().JobByID("default", "web")), `Group "g": there is a place for every allocation`)
	b.update(func(tx *state.Tx) error {
		return tx.UpdateAllocFromClient(&model.AllocReport{ID: placed.ID, ClientStatus: model.AllocClientStatusFailed}, now.UnixNano())
	})
	says(t, b.explain(now).Job(b.View().JobByID("default", "web")), `Group "g": 1 allocations are lacking that nothing places now;`,
		"Allocation "+placed.ID[:8]+" has failed. Nothing replaces it: its reschedule block allows no further attempt.")
}
