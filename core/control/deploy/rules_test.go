// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package deploy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// stop stops an alloc as the scheduler does.
func (w *world) stop(id string) {
	w.t.Helper()
	w.update(func(tx *state.Tx) error {
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: id}, "e", now.UnixNano())
	})
}

// replace places a replacement of an alloc of the group app.
func (w *world) replace(id, previous string) {
	w.t.Helper()
	w.update(func(tx *state.Tx) error {
		tx.PlaceAlloc(&model.Allocation{ID: id, Namespace: "default", JobID: "web", JobVersion: 1, TaskGroup: "app", Name: "web.app[0]", NodeID: "n1",
			DeploymentID: "d1", PreviousAllocation: previous, DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusRunning,
			AllocatedResources: &model.AllocatedResources{}, DeploymentStatus: &model.AllocDeploymentStatus{}}, now.UnixNano())
		return nil
	})
}

// becomes says what a decision makes of the deployment, "" if it goes on.
func becomes(t *testing.T, d control.Decision) string {
	t.Helper()
	if u, ok := only[*fsm.UpdateDeploymentStatus](t, d); ok {
		return u.Update.Status
	}
	return ""
}

func TestAChangeConcernsTheDeploymentThatItNames(t *testing.T) {
	for name, c := range map[string]struct {
		row  any
		want []string
	}{
		"a deployment":                 {&model.Deployment{ID: "d"}, []string{"d"}},
		"an alloc of one":              {&model.Allocation{ID: "a", DeploymentID: "d"}, []string{"d"}},
		"an alloc of none":             {&model.Allocation{ID: "a"}, nil},
		"an alloc that is no more":     {nil, nil},
		"a row of another kind at all": {&model.Node{ID: "n"}, nil},
	} {
		if got := (deploy.Controller{}).Keys(state.Change{New: c.row}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAllDeploymentsThatHaveNotEndedAreLookedAt(t *testing.T) {
	for status, want := range map[string][]string{
		model.DeploymentStatusRunning: {"d1"}, model.DeploymentStatusPaused: {"d1"}, model.DeploymentStatusFailed: nil, model.DeploymentStatusSuccessful: nil,
	} {
		w := newWorld(t, model.DeploymentState{DesiredTotal: 1})
		w.status(status)
		if got := (deploy.Controller{}).All(control.Restrict(w.store.View(), deploy.Controller{}.Declare())); !slices.Equal(got, want) {
			t.Errorf("%s: %q", status, got)
		}
	}
}

func TestADeploymentOfAVersionThatIsNotKeptIsLeftToTheScheduler(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute, RequireProgressBy: now})
	for i := range 10 {
		w.update(func(tx *state.Tx) error {
			job := w.store.View().JobByID("default", "web").Copy()
			job.Priority = 60 + i
			tx.UpsertJob(job, nil)
			return nil
		})
	}
	if d := w.decide(now.Add(time.Hour)); len(d.Commands) != 0 || !d.Wake.IsZero() {
		t.Errorf("it is decided %+v", d)
	}
	got := deploy.Standing(w.store.View(), w.store.View().DeploymentByID("d1"), now)
	if want := []string{"Newer versions of its job have replaced the one that it rolls out: the scheduler cancels it."}; !slices.Equal(got, want) {
		t.Errorf("it says %q", got)
	}
}

func TestWhatWasStoppedOrReplacedNeitherFailsADeploymentNorIsReplacedAgain(t *testing.T) {
	impatient := model.DeploymentState{DesiredTotal: 3}
	patient := model.DeploymentState{DesiredTotal: 3, ProgressDeadline: time.Hour, RequireProgressBy: now.Add(time.Hour)}
	tried := &model.RescheduleTracker{Events: []*model.RescheduleEvent{{RescheduleTime: now.UnixNano()}}}
	for name, c := range map[string]struct {
		group model.DeploymentState
		then  func(*world)
	}{
		"one failed and was stopped, and none may fail": {impatient, func(w *world) {
			w.alloc("a", nil, false)
			w.report("a", model.AllocClientStatusFailed)
			w.stop("a")
		}},
		"one runs, and none may fail":      {impatient, func(w *world) { w.alloc("a", nil, false) }},
		"one is unhealthy and was stopped": {patient, func(w *world) { w.alloc("a", &no, false); w.stop("a") }},
		"one without further attempts was stopped": {patient, func(w *world) {
			w.tries = tried
			w.alloc("a", &no, false)
			w.stop("a")
		}},
		"one without further attempts is healthy": {patient, func(w *world) { w.tries = tried; w.alloc("a", &yes, false) }},
		"one is unhealthy and was replaced":       {patient, func(w *world) { w.alloc("a", &no, false); w.replace("b", "a") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.group)
			c.then(w)
			w.update(func(tx *state.Tx) error { // it has seen all of that
				tx.UpsertEval(&model.Evaluation{ID: "e", Namespace: "default", JobID: "web", Status: model.EvalStatusComplete, SnapshotIndex: w.index})
				return nil
			})
			if d := w.decide(now); len(d.Commands) != 0 {
				t.Errorf("it is decided %+v", d.Commands[0])
			}
		})
	}
}

func TestTheDeadlineOfACompleteGroupPassesForNobody(t *testing.T) {
	late := model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Hour, RequireProgressBy: now.Add(time.Hour)}
	done := model.DeploymentState{DesiredTotal: 0, ProgressDeadline: time.Minute, RequireProgressBy: now}
	w := newWorld(t, late, &done)
	if got := becomes(t, w.decide(now.Add(time.Minute))); got != "" {
		t.Errorf("it is %s", got)
	}
	if got := becomes(t, w.decide(now.Add(time.Hour))); got != model.DeploymentStatusFailed {
		t.Errorf("it is %q at the deadline of the other group", got)
	}
}

func TestTheNextDeadlineIsTheEarliestOfThoseThatHaveBegun(t *testing.T) {
	at := func(d time.Duration) *model.DeploymentState {
		g := &model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Hour}
		if d > 0 {
			g.RequireProgressBy = now.Add(d)
		}
		return g
	}
	for range 10 { // the groups are in a map
		for _, c := range [][3]time.Duration{{0, time.Minute, time.Minute}, {time.Hour, time.Minute, time.Minute}, {time.Minute, time.Hour, time.Minute}} {
			w := newWorld(t, *at(c[0]), at(c[1]))
			if got := w.decide(now).Wake; !got.Equal(now.Add(c[2])) {
				t.Errorf("of %v the next is at %s", c, got)
			}
		}
	}
}

func TestThatNothingIsRolledBackIsSaidOnlyIfAGroupAsksForIt(t *testing.T) {
	late := model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute, RequireProgressBy: now}
	w := newWorld(t, late, &model.DeploymentState{ProgressDeadline: time.Minute}) // complete, and does not ask
	u, _ := only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
	if u == nil || u.Job != nil || u.Update.StatusDescription != model.DeploymentStatusDescriptionProgressDeadline {
		t.Errorf("got %+v", u)
	}
}

func TestTheEvaluationsOfADeploymentHaveItsPriorityAndName(t *testing.T) {
	for own, want := range map[int]int{0: 50, 70: 70} {
		w := newWorld(t, model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute})
		w.update(func(tx *state.Tx) error {
			d := w.store.View().DeploymentByID("d1").Copy()
			d.EvalPriority = own
			tx.UpsertDeployment(d, now.UnixNano())
			return nil
		})
		w.alloc("a", &yes, false)
		u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
		if !ok || u.Eval.Priority != want || u.Eval.DeploymentID != "d1" {
			t.Errorf("with the priority %d the evaluation is %+v", own, u.Eval)
		}
	}
}

func TestAnUnhealthyAllocThatIsReplacedNamesItsReplacement(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 2, ProgressDeadline: time.Hour})
	w.alloc("a", &no, false)
	w.replace("b", "a")
	got := deploy.Standing(w.store.View(), w.store.View().DeploymentByID("d1"), now)
	want := []string{`Group "app": 0 of 2 allocations are healthy, the health of 1 is not known yet.`, "Allocation a is unhealthy, and b has replaced it.", "Unless one more becomes healthy before, the deployment fails at 2026-11-21T13:00:00Z."}
	if !slices.Equal(got, want) {
		t.Errorf("it says %q", got)
	}
}

// waitingForDB returns a world whose job depends on one that does not exist.
func waitingForDB(t *testing.T, limit time.Duration, group model.DeploymentState, others ...*model.DeploymentState) *world {
	w := newWorld(t, group, others...)
	w.update(func(tx *state.Tx) error {
		job := w.store.View().JobByID("default", "web").Copy()
		job.SubmitTime, job.DependsOn = now.UnixNano(), []*model.Dependency{{Name: "db", Condition: model.DependencyStarted, Timeout: limit}}
		tx.UpsertJob(job, nil)
		d := w.store.View().DeploymentByID("d1").Copy()
		d.JobVersion = 2
		tx.UpsertDeployment(d, now.UnixNano())
		return nil
	})
	return w
}

func TestTheLimitOfADependencyIsADeadlineBesideThoseOfTheGroups(t *testing.T) {
	rolling := &model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Hour, RequireProgressBy: now.Add(time.Hour)}
	for limit, want := range map[time.Duration]time.Duration{0: time.Hour, time.Minute: time.Minute, 2 * time.Hour: time.Hour} {
		w := waitingForDB(t, limit, model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute}, rolling)
		if got := w.decide(now).Wake; !got.Equal(now.Add(want)) {
			t.Errorf("with a limit of %s the next look is in %s", limit, got.Sub(now))
		}
	}
}

func TestALimitFailsOnlyTheDeploymentOfTheVersionThatWaits(t *testing.T) {
	pending := model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Hour}
	for name, c := range map[string]struct {
		group model.DeploymentState
		then  func(*world)
		fails bool
	}{
		"it waits":              {pending, func(*world) {}, true},
		"its group is complete": {model.DeploymentState{ProgressDeadline: time.Hour}, func(*world) {}, false},
		"there is a newer version": {pending, func(w *world) {
			w.update(func(tx *state.Tx) error {
				job := w.store.View().JobByID("default", "web").Copy()
				job.Priority = 60
				tx.UpsertJob(job, nil)
				return nil
			})
		}, false},
	} {
		w := waitingForDB(t, time.Minute, c.group)
		c.then(w)
		if got := becomes(t, w.decide(now.Add(time.Minute))) == model.DeploymentStatusFailed; got != c.fails {
			t.Errorf("%s: it fails: %t", name, got)
		}
	}
}

func TestTheGroupsForWhichNothingIsRolledBackAreNamedInOrder(t *testing.T) {
	for range 20 { // they are in a map
		w := newWorld(t, model.DeploymentState{AutoRevert: true, ProgressDeadline: time.Minute}, &model.DeploymentState{AutoRevert: true, ProgressDeadline: time.Minute})
		w.update(func(tx *state.Tx) error {
			d := w.store.View().DeploymentByID("d1").Copy()
			d.TaskGroups["late"] = &model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute, RequireProgressBy: now}
			tx.UpsertDeployment(d, now.UnixNano())
			return nil
		})
		u, _ := only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
		if u == nil || !strings.HasSuffix(u.Update.StatusDescription, "complete: app, other") {
			t.Fatalf("got %+v", u)
		}
	}
}
