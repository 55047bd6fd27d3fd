// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package deploy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// report makes a node report the status of an alloc.
func (w *world) report(id, status string) {
	w.t.Helper()
	w.update(func(tx *state.Tx) error {
		return tx.UpdateAllocFromClient(&model.AllocReport{ID: id, ClientStatus: status}, now.UnixNano())
	})
}

// status sets the status of the deployment.
func (w *world) status(status string) {
	w.t.Helper()
	w.update(func(tx *state.Tx) error {
		return tx.UpdateDeploymentStatus(&model.DeploymentStatusUpdate{DeploymentID: "d1", Status: status, StatusDescription: "because", UpdatedAt: now.UnixNano()})
	})
}

// waiting adds an evaluation in which allocs of a group have found no place.
func (w *world) waiting(status, group string) {
	w.t.Helper()
	w.update(func(tx *state.Tx) error {
		tx.UpsertEval(&model.Evaluation{ID: "0123456789", Namespace: "default", JobID: "web", Type: model.JobTypeService, Status: status,
			FailedTGAllocs: map[string]*model.AllocMetric{group: {}}})
		return nil
	})
}

func TestTheStandingOfADeploymentSaysWhatItWaitsForAndWhatWillBecomeOfIt(t *testing.T) {
	rolling := model.DeploymentState{DesiredTotal: 3, ProgressDeadline: time.Hour, RequireProgressBy: now.Add(time.Hour)}
	const deadline = "Unless one more becomes healthy before, the deployment fails at 2026-11-21T13:00:00Z."
	canaries := rolling
	canaries.DesiredCanaries = 2
	auto := canaries
	auto.AutoPromote = true
	impatient := model.DeploymentState{DesiredTotal: 3}
	for name, c := range map[string]struct {
		group model.DeploymentState
		other *model.DeploymentState
		then  func(*world)
		want  []string
	}{
		"nothing is placed": {rolling, nil, func(*world) {}, []string{`Group "app": 0 of 3 allocations are healthy.`, deadline}},
		"some are healthy, and some start": {rolling, nil, func(w *world) {
			w.alloc("a", &yes, false)
			w.alloc("b", nil, false)
		}, []string{`Group "app": 1 of 3 allocations are healthy, the health of 1 is not known yet.`, deadline}},
		"allocs of another group do not count": {rolling, &rolling, func(w *world) { w.allocOf("other", "o", &yes, false) },
			[]string{`Group "app": 0 of 3 allocations are healthy.`, deadline, `Group "other": 1 of 3 allocations are healthy.`, deadline}},
		"some find no place": {rolling, nil, func(w *world) { w.waiting(model.EvalStatusBlocked, "app") },
			[]string{`Group "app": 0 of 3 allocations are healthy, and some find no place (drover eval explain 01234567).`, deadline}},
		"those of another group find none": {rolling, nil, func(w *world) { w.waiting(model.EvalStatusBlocked, "other") },
			[]string{`Group "app": 0 of 3 allocations are healthy.`, deadline}},
		"they have found one since": {rolling, nil, func(w *world) { w.waiting(model.EvalStatusComplete, "app") },
			[]string{`Group "app": 0 of 3 allocations are healthy.`, deadline}},
		"one is unhealthy": {rolling, nil, func(w *world) { w.alloc("a", &no, false) },
			[]string{`Group "app": 0 of 3 allocations are healthy.`, "Allocation a is unhealthy, and is replaced at 2026-11-21T12:00:00Z.", deadline}},
		"one has failed without a word about its health": {rolling, nil, func(w *world) {
			w.alloc("a", nil, false)
			w.report("a", model.AllocClientStatusFailed)
		}, []string{`Group "app": 0 of 3 allocations are healthy.`, "Allocation a is unhealthy, and is replaced at 2026-11-21T12:00:00Z.", deadline}},
		"one has ended well, and one is stopped": {rolling, nil, func(w *world) {
			w.alloc("a", &yes, false)
			w.report("a", model.AllocClientStatusComplete)
			w.alloc("b", &no, false)
			w.update(func(tx *state.Tx) error {
				return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: "b"}, "e", now.UnixNano())
			})
		}, []string{`Group "app": 0 of 3 allocations are healthy.`, deadline}},
		"one is unhealthy and is not replaced": {rolling, nil, func(w *world) {
			w.tries = &model.RescheduleTracker{Events: []*model.RescheduleEvent{{RescheduleTime: now.UnixNano()}}}
			w.alloc("a", &no, false)
		}, []string{`Group "app": 0 of 3 allocations are healthy.`, "Allocation a is unhealthy: its reschedule block allows no further attempt.", deadline}},
		"five are unhealthy": {rolling, nil, func(w *world) { w.unhealthy(5) }, append(unhealthy(5), deadline)},
		"seven are unhealthy": {rolling, nil, func(w *world) { w.unhealthy(7) },
			append(unhealthy(5), "2 more of its allocations are unhealthy.", deadline)},
		"without a deadline": {impatient, nil, func(*world) {},
			[]string{`Group "app": 0 of 3 allocations are healthy.`, `Group "app" has no progress deadline: the first unhealthy allocation fails the deployment.`}},
		"complete": {model.DeploymentState{DesiredTotal: 1}, nil, func(w *world) { w.alloc("a", &yes, false) },
			[]string{`Group "app" is complete: 1 of 1 allocations are healthy.`}},

		"one of two canaries is healthy": {canaries, nil, func(w *world) {
			w.alloc("a", &yes, true)
			w.alloc("b", &yes, false)
		}, []string{`Group "app": 1 of 2 canaries are healthy.`, deadline}},
		"canaries wait for a person": {canaries, nil, func(w *world) { w.canaries("app") },
			[]string{`Group "app": its 2 canaries are healthy, and wait for drover deployment promote d1.`}},
		"canaries are promoted": {auto, nil, func(w *world) { w.canaries("app") },
			[]string{`Group "app": its 2 canaries are healthy, and are promoted now.`}},
		"canaries wait for those of another group": {auto, &auto, func(w *world) { w.canaries("app") },
			[]string{`Group "app": its 2 canaries are healthy, and are promoted together with those of other.`, `Group "other": 0 of 2 canaries are healthy.`, deadline}},
		"canaries wait for another group, which waits for a person": {auto, &canaries, func(w *world) { w.canaries("app"); w.canaries("other") },
			[]string{`Group "app": its 2 canaries are healthy, and are promoted together with those of other.`, `Group "other": its 2 canaries are healthy, and wait for drover deployment promote d1.`}},
		"promoted": {canaries, nil, func(w *world) {
			w.canaries("app")
			w.update(func(tx *state.Tx) error { return tx.PromoteDeployment("d1", nil, now.UnixNano()) })
		}, []string{`Group "app": 2 of 3 allocations are healthy.`, deadline}},

		"paused": {rolling, nil, func(w *world) { w.status(model.DeploymentStatusPaused) },
			[]string{"It is paused: nothing goes on, and no deadline passes, until drover deployment resume d1."}},
		"failed": {rolling, nil, func(w *world) { w.status(model.DeploymentStatusFailed) }, []string{"It is failed: because."}},
	} {
		t.Run(name, func(t *testing.T) {
			var others []*model.DeploymentState
			if c.other != nil {
				other := *c.other
				others = append(others, &other)
			}
			w := newWorld(t, c.group, others...)
			c.then(w)
			got := deploy.Standing(w.store.View(), w.store.View().DeploymentByID("d1"), now)
			if !slices.Equal(got, c.want) {
				t.Errorf("it says\n%q, want\n%q", got, c.want)
			}
		})
	}
}

// canaries places the two healthy canaries of a group.
func (w *world) canaries(group string) {
	w.allocOf(group, group+"-1", &yes, true)
	w.allocOf(group, group+"-2", &yes, true)
}

func (w *world) unhealthy(n int) {
	for i := range n {
		w.alloc(fmt.Sprint("a", i), &no, false)
	}
}

func unhealthy(n int) []string {
	out := []string{`Group "app": 0 of 3 allocations are healthy.`}
	for i := range n {
		out = append(out, fmt.Sprintf("Allocation a%d is unhealthy, and is replaced at 2026-11-21T12:00:00Z.", i))
	}
	return out
}

func TestADeploymentThatDoesNotRunIsLeftAlone(t *testing.T) {
	for _, status := range []string{model.DeploymentStatusPaused, model.DeploymentStatusFailed, model.DeploymentStatusSuccessful} {
		w := newWorld(t, model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute, RequireProgressBy: now})
		w.status(status)
		if d := w.decide(now.Add(time.Hour)); len(d.Commands) != 0 || !d.Wake.IsZero() {
			t.Errorf("%s: %+v", status, d)
		}
	}
	d, err := control.Decide(deploy.Controller{}, state.New().View(), now, nil, "gone")
	if err != nil || len(d.Commands) != 0 {
		t.Errorf("one that was removed: %+v, %v", d, err)
	}
}

// An evaluation that waits for its time does not keep the scheduler from looking now.
func TestProgressMakesAnEvalBesideOneThatWaitsForItsTime(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 3, ProgressDeadline: time.Hour})
	w.alloc("a", &yes, false)
	w.update(func(tx *state.Tx) error {
		tx.UpsertEval(&model.Evaluation{ID: "later", Namespace: "default", JobID: "web", Status: model.EvalStatusPending, WaitUntil: now.Add(time.Hour)})
		return nil
	})
	if _, ok := only[*fsm.UpsertEvals](t, w.decide(now)); !ok {
		t.Error("the next step waits for an hour")
	}
}

func TestTheEarliestDeadlineOfAGroupThatWaitsForNobodyIsTheNextOne(t *testing.T) {
	early := model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute, RequireProgressBy: now.Add(time.Minute)}
	late := early
	late.RequireProgressBy = now.Add(time.Hour)
	done := early
	done.DesiredTotal = 0
	person := early
	person.DesiredTotal, person.DesiredCanaries = 2, 1
	for name, c := range map[string]struct {
		app, other model.DeploymentState
		want       time.Time
	}{
		"the first":                       {early, late, now.Add(time.Minute)},
		"the second":                      {late, early, now.Add(time.Minute)},
		"the first is complete":           {done, late, now.Add(time.Hour)},
		"the first waits for a promotion": {person, late, now.Add(time.Hour)},
	} {
		w := newWorld(t, c.app, &c.other)
		if c.app.DesiredCanaries > 0 {
			w.alloc("a", &yes, true)
		}
		if got := w.decide(now).Wake; !got.Equal(c.want) {
			t.Errorf("%s: the next look is at %s, want %s", name, got, c.want)
		}
	}
}

func TestAnIncompleteGroupThatAsksForItRollsBackBesideOneThatDoesNot(t *testing.T) {
	asks := model.DeploymentState{DesiredTotal: 1, AutoRevert: true, ProgressDeadline: time.Minute, RequireProgressBy: now}
	silent := model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute, RequireProgressBy: now}
	for range 10 { // the groups are in a map
		w := newWorld(t, asks, &silent)
		w.update(func(tx *state.Tx) error { return tx.SetJobStability("default", "web", 0, true) })
		u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
		if !ok || u.Job == nil || u.Job.Version != 0 {
			t.Fatalf("got %+v", u)
		}
	}
}

func TestTheDeadlinePassesAgainOnceTheCanariesArePromoted(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 3, DesiredCanaries: 2, ProgressDeadline: time.Minute, RequireProgressBy: now})
	w.canaries("app")
	w.update(func(tx *state.Tx) error { return tx.PromoteDeployment("d1", nil, now.UnixNano()) })
	u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(now.Add(time.Hour)))
	if !ok || u.Update.Status != model.DeploymentStatusFailed {
		t.Errorf("nothing becomes healthy after the promotion, and the deployment goes on: %+v", u)
	}
}

func TestProgressMakesAnEvalAfterOneThatDidNotSeeIt(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 3, ProgressDeadline: time.Hour})
	w.update(func(tx *state.Tx) error {
		tx.UpsertEval(&model.Evaluation{ID: "before", Namespace: "default", JobID: "web", Status: model.EvalStatusComplete, SnapshotIndex: w.index})
		return nil
	})
	w.alloc("a", &yes, false)
	if _, ok := only[*fsm.UpsertEvals](t, w.decide(now)); !ok {
		t.Error("the scheduler never makes the next step")
	}
}
