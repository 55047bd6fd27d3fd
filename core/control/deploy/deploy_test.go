// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package deploy_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// world is a state with one job, of which version 1 is being deployed.
type world struct {
	t     *testing.T
	store *state.Store
	index uint64
	tries *model.RescheduleTracker // of the allocs that are placed
}

// newWorld returns a world whose job has one group, and other groups if there are any.
func newWorld(t *testing.T, group model.DeploymentState, others ...*model.DeploymentState) *world {
	w := &world{t: t, store: state.New(), index: 10}
	invariants.AtEnd(t, w.store)
	for count := 1; count <= 2; count++ { // two versions
		job := &model.Job{Namespace: "default", ID: "web", Type: model.JobTypeService, Priority: 50, TaskGroups: []*model.TaskGroup{
			{Name: "app", Count: count, ReschedulePolicy: &model.ReschedulePolicy{Attempts: 1, Interval: time.Hour}},
			{Name: "other", Count: count, ReschedulePolicy: &model.ReschedulePolicy{Unlimited: true}},
		}}
		w.update(func(tx *state.Tx) error { tx.UpsertJob(job, nil); return nil })
	}
	d := &model.Deployment{ID: "d1", Namespace: "default", JobID: "web", JobVersion: 1, JobCreateIndex: 11, Status: model.DeploymentStatusRunning,
		TaskGroups: map[string]*model.DeploymentState{"app": &group}}
	for _, g := range others {
		d.TaskGroups["other"] = g
	}
	w.update(func(tx *state.Tx) error { tx.UpsertDeployment(d, now.UnixNano()); return nil })
	return w
}

func (w *world) update(f func(*state.Tx) error) {
	w.t.Helper()
	w.index++
	if err := w.store.Update(w.index, f); err != nil {
		w.t.Fatal(err)
	}
}

// alloc places an alloc of the deployment; healthy nil is not known yet.
func (w *world) alloc(id string, healthy *bool, canary bool) {
	w.t.Helper()
	w.allocOf("app", id, healthy, canary)
}

func (w *world) allocOf(group, id string, healthy *bool, canary bool) {
	w.t.Helper()
	w.update(func(tx *state.Tx) error {
		tx.PlaceAlloc(&model.Allocation{ID: id, Namespace: "default", JobID: "web", JobVersion: 1, TaskGroup: group, Name: "web." + group + "[0]", NodeID: "n1",
			DeploymentID: "d1", DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusRunning,
			AllocatedResources: &model.AllocatedResources{}, RescheduleTracker: w.tries, DeploymentStatus: &model.AllocDeploymentStatus{Canary: canary}}, now.UnixNano())
		return nil
	})
	if healthy != nil {
		w.update(func(tx *state.Tx) error {
			return tx.UpdateAllocFromClient(&model.AllocReport{ID: id, ClientStatus: model.AllocClientStatusRunning,
				Health: &model.HealthReport{DeploymentID: "d1", Healthy: *healthy}}, now.UnixNano())
		})
	}
}

func (w *world) decide(at time.Time) control.Decision {
	w.t.Helper()
	n := 0
	d, err := control.Decide(deploy.Controller{}, w.store.View(), at, func() string { n++; return "id-" + strconv.Itoa(n) }, "d1")
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

var yes, no = true, false

func TestAllHealthyEndsInSuccess(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute})
	w.alloc("a", &yes, false)
	u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
	if !ok || u.Update.Status != model.DeploymentStatusSuccessful || u.Eval == nil || u.Eval.TriggeredBy != model.EvalTriggerDeploymentWatcher {
		t.Fatalf("got %+v", u)
	}
}

func TestNoProgressFailsAtTheStoredDeadlineAndNotBefore(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 2, ProgressDeadline: time.Minute, RequireProgressBy: now.Add(time.Minute)})
	early := w.decide(now)
	if len(early.Commands) != 0 || early.Wake.IsZero() || early.Wake.Before(now) {
		t.Fatalf("before the deadline: %+v", early)
	}
	u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(early.Wake))
	if !ok || u.Update.Status != model.DeploymentStatusFailed || u.Update.StatusDescription != model.DeploymentStatusDescriptionProgressDeadline {
		t.Fatalf("at the deadline: %+v", u)
	}
}

func TestWithoutADeadlineTheFirstUnhealthyAllocFailsIt(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 2})
	w.alloc("a", &no, false)
	u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
	if !ok || u.Update.Status != model.DeploymentStatusFailed || u.Job != nil {
		t.Fatalf("got %+v", u)
	}
}

func TestWithoutADeadlineAnAllocThatFailsAfterItWasHealthyOrWithoutAWordFailsIt(t *testing.T) {
	for name, healthy := range map[string]*bool{"was healthy": &yes, "without a word": nil} {
		w := newWorld(t, model.DeploymentState{DesiredTotal: 2})
		w.alloc("a", healthy, false)
		w.update(func(tx *state.Tx) error {
			return tx.UpdateAllocFromClient(&model.AllocReport{ID: "a", ClientStatus: model.AllocClientStatusFailed}, now.UnixNano())
		})
		u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
		if !ok || u.Update.Status != model.DeploymentStatusFailed {
			t.Errorf("%s: got %+v: the failed alloc waits for the end of a deployment that never ends", name, u)
		}
	}
}

func TestAutoRevertGoesBackToTheNewestStableVersion(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 2, AutoRevert: true})
	w.alloc("a", &no, false)
	u, _ := only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
	if u.Job != nil || !strings.Contains(u.Update.StatusDescription, "no stable job version to auto revert to") {
		t.Fatalf("without a stable version: %+v", u.Update)
	}
	w.update(func(tx *state.Tx) error { return tx.SetJobStability("default", "web", 0, true) })
	u, _ = only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
	if u.Job == nil || u.Job.Version != 0 || !strings.HasSuffix(u.Update.StatusDescription, "rolling back to job version 0") {
		t.Fatalf("with a stable version: %+v", u.Update)
	}
}

func TestUnhealthyAllocsWithinTheDeadlineAreReplacedOnce(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 2, ProgressDeadline: time.Minute, RequireProgressBy: now.Add(time.Minute)})
	w.alloc("a", &no, false)
	u, ok := only[*fsm.UpdateDesiredTransitions](t, w.decide(now))
	if !ok || !u.Transitions["a"].ShouldReschedule() || len(u.Evals) != 1 {
		t.Fatalf("got %+v", u)
	}
	w.update(func(tx *state.Tx) error {
		tx.UpsertEval(u.Evals[0])
		return tx.SetDesiredTransition("a", u.Transitions["a"])
	})
	if d := w.decide(now); len(d.Commands) != 0 {
		t.Fatalf("a second time: %+v", d.Commands)
	}
}

func TestAutoPromotionWaitsForEveryCanary(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 2, DesiredCanaries: 2, AutoPromote: true, ProgressDeadline: time.Hour})
	w.alloc("a", &yes, true)
	if p, ok := only[*fsm.PromoteDeployment](t, w.decide(now)); ok {
		t.Fatalf("with one of two healthy: %+v", p)
	}
	w.alloc("b", &yes, true)
	if _, ok := only[*fsm.PromoteDeployment](t, w.decide(now)); !ok {
		t.Fatal("all canaries are healthy, but they were not promoted")
	}
}

func TestManualPromotionWaitsPastTheDeadline(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 3, DesiredCanaries: 1, ProgressDeadline: time.Minute, RequireProgressBy: now})
	w.alloc("a", &yes, true)
	if u, failed := only[*fsm.UpdateDeploymentStatus](t, w.decide(now.Add(time.Hour))); failed {
		t.Fatalf("a deployment that waits for a person failed: %+v", u.Update)
	}
}

func TestProgressThatTheSchedulerHasNotSeenMakesOneEval(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 3, ProgressDeadline: time.Hour})
	w.alloc("a", &yes, false)
	u, ok := only[*fsm.UpsertEvals](t, w.decide(now))
	if !ok {
		t.Fatal("no eval for the next step")
	}
	w.update(func(tx *state.Tx) error { tx.UpsertEval(u.Evals[0]); return nil })
	if d := w.decide(now); len(d.Commands) != 0 {
		t.Fatalf("while that eval waits: %+v", d.Commands)
	}
	seen := u.Evals[0].Copy()
	seen.Status, seen.SnapshotIndex = model.EvalStatusComplete, w.index
	w.update(func(tx *state.Tx) error { tx.UpsertEval(seen); return nil })
	if d := w.decide(now); len(d.Commands) != 0 {
		t.Fatalf("after the scheduler has seen it: %+v", d.Commands)
	}
}

// only returns the single command of a decision, if it is of type C.
func only[C fsm.Command](t *testing.T, d control.Decision) (c C, ok bool) {
	t.Helper()
	if len(d.Commands) != 1 {
		return c, false
	}
	c, ok = d.Commands[0].(C)
	return c, ok
}

func TestOnlyHealthyCanariesWaitForAPromotionPastTheDeadline(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 2, DesiredCanaries: 1, ProgressDeadline: time.Minute, RequireProgressBy: now.Add(time.Minute)})
	w.alloc("canary", nil, true)
	w.alloc("other", &yes, false) // healthy, but not what the promotion needs
	u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(now.Add(time.Hour)))
	if !ok || u.Update.Status != model.DeploymentStatusFailed {
		t.Errorf("got %+v: a deployment whose canary never becomes healthy never ends", u)
	}
}

func TestADeploymentWhoseAllocsAllWaitForRoomFailsAtItsDeadline(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute, RequireProgressBy: now.Add(time.Minute)})
	early := w.decide(now)
	if len(early.Commands) != 0 || !early.Wake.Equal(now.Add(time.Minute)) {
		t.Fatalf("before the deadline: %+v", early)
	}
	u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(early.Wake))
	if !ok || u.Update.Status != model.DeploymentStatusFailed {
		t.Fatalf("at the deadline: %+v", u)
	}
}

func TestTheFirstAllocHasTheWholeTimeHoweverLongItHasWaitedForRoom(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Hour, RequireProgressBy: now.Add(time.Minute)})
	w.update(func(tx *state.Tx) error { tx.BeginTerm("c", "t"); tx.RaiseLevel(2, ""); return nil })
	w.alloc("a", nil, false)
	if d := w.decide(now.Add(time.Minute)); len(d.Commands) != 0 || !d.Wake.Equal(now.Add(time.Hour)) {
		t.Fatalf("got %+v", d)
	}
}

func TestADeploymentThatCannotSucceedAnyMoreFailsAtOnceAndSaysWhy(t *testing.T) {
	yes := true
	fails := func(tx *state.Tx) error {
		return tx.UpdateAllocFromClient(&model.AllocReport{ID: "a", ClientStatus: model.AllocClientStatusFailed}, now.UnixNano())
	}
	forced := func(tx *state.Tx) error {
		return tx.SetDesiredTransition("a", model.DesiredTransition{ForceReschedule: &yes})
	}
	for name, c := range map[string]struct {
		group   string
		healthy *bool
		tried   bool // the one attempt that group app has
		events  []func(*state.Tx) error
		fails   bool
	}{
		"it starts":                                 {"app", nil, false, nil, false},
		"failed, and another attempt is left":       {"app", nil, false, []func(*state.Tx) error{fails}, false},
		"failed, and none is left":                  {"app", nil, true, []func(*state.Tx) error{fails}, true},
		"failed after it was healthy, and none":     {"app", &yes, true, []func(*state.Tx) error{fails}, true},
		"unhealthy while it runs, and one is left":  {"app", &no, false, nil, false},
		"unhealthy while it runs, and none is left": {"app", &no, true, nil, true},
		"somebody has forced a replacement":         {"app", &no, true, []func(*state.Tx) error{forced}, false},
		"attempts without limit":                    {"other", &no, true, nil, false},
		"the group of a failed one is complete":     {"done", &no, true, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := model.DeploymentState{DesiredTotal: 2, ProgressDeadline: time.Hour, RequireProgressBy: now.Add(time.Hour)}
			group := c.group
			if group == "done" {
				g.DesiredTotal, group = 0, "app"
			}
			other := g
			other.DesiredTotal = 2
			w := newWorld(t, g, &other)
			if c.tried {
				w.tries = &model.RescheduleTracker{Events: []*model.RescheduleEvent{{RescheduleTime: now.Add(-time.Minute).UnixNano()}}}
			}
			w.allocOf(group, "a", c.healthy, false)
			for _, event := range c.events {
				w.update(event)
			}
			u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
			if failed := ok && u.Update.Status == model.DeploymentStatusFailed; failed != c.fails {
				t.Fatalf("failed: %t (%+v)", failed, u)
			}
			want := `Failed due to unhealthy allocations - allocation a of group "app" is unhealthy, and its reschedule block allows no further attempt`
			if c.fails && u.Update.StatusDescription != want {
				t.Errorf("it says %q", u.Update.StatusDescription)
			}
		})
	}
}

func TestGroupsWithDifferentStrategiesWaitForEachOther(t *testing.T) {
	auto := model.DeploymentState{DesiredTotal: 2, DesiredCanaries: 1, AutoPromote: true, ProgressDeadline: time.Minute, RequireProgressBy: now.Add(time.Minute)}
	manual := auto
	manual.AutoPromote = false
	late := now.Add(time.Hour)

	w := newWorld(t, auto, &manual)
	w.alloc("a", &yes, true)
	u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(late))
	if !ok || u.Update.Status != model.DeploymentStatusFailed {
		t.Errorf("while canaries of one group are not healthy, its deadline ends the deployment: %+v", u)
	}
	w.allocOf("other", "b", &yes, true)
	if d := w.decide(late); len(d.Commands) != 1 { // for the scheduler
		t.Errorf("got %+v", d.Commands)
	} else if _, evals := d.Commands[0].(*fsm.UpsertEvals); !evals {
		t.Errorf("all canaries are healthy, and one group waits for a person: %+v", d.Commands[0])
	}
	w.update(func(tx *state.Tx) error { return tx.PromoteDeployment("d1", []string{"other"}, late.UnixNano()) })
	w.update(func(tx *state.Tx) error { // a promoted canary is one alloc among others
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: "b"}, "e", late.UnixNano())
	})
	if p, ok := only[*fsm.PromoteDeployment](t, w.decide(late)); !ok || p.All || len(p.Groups) != 1 || p.Groups[0] != "app" {
		t.Errorf("the person has promoted the other group, and what can be promoted is %+v", p)
	} else if err := w.store.Update(w.index+1, func(tx *state.Tx) error { return tx.PromoteDeployment("d1", p.Groups, late.UnixNano()) }); err != nil {
		t.Errorf("the promotion is refused: %v", err)
	}
}

func TestNothingIsRolledBackIfOnlyCompleteGroupsAskForItAndTheDescriptionSaysSo(t *testing.T) {
	asks := &model.DeploymentState{AutoRevert: true, ProgressDeadline: time.Minute}
	w := newWorld(t, model.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute, RequireProgressBy: now}, asks)
	w.update(func(tx *state.Tx) error { return tx.SetJobStability("default", "web", 0, true) })
	u, _ := only[*fsm.UpdateDeploymentStatus](t, w.decide(now))
	want := "Failed due to progress deadline - not rolling back as auto_revert is set only in groups that are complete: other"
	if u == nil || u.Job != nil || u.Update.StatusDescription != want {
		t.Errorf("got %+v", u)
	}
}

func TestACanaryThatIsLostAfterItHasWaitedForAPersonIsReplacedInTheWholeTime(t *testing.T) {
	w := newWorld(t, model.DeploymentState{DesiredTotal: 2, DesiredCanaries: 1, ProgressDeadline: time.Minute, RequireProgressBy: now.Add(time.Minute)})
	w.update(func(tx *state.Tx) error { tx.BeginTerm("c", "t"); tx.RaiseLevel(2, ""); return nil })
	w.alloc("a", &yes, true)
	days := now.Add(48 * time.Hour)
	w.update(func(tx *state.Tx) error {
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: "a", ClientStatus: model.AllocClientStatusLost}, "e", days.UnixNano())
	})
	if d := w.decide(days); !d.Wake.Equal(days.Add(time.Minute)) {
		t.Errorf("got %+v", d)
	}
	u, ok := only[*fsm.UpdateDeploymentStatus](t, w.decide(days.Add(time.Minute)))
	if !ok || u.Update.Status != model.DeploymentStatusFailed {
		t.Errorf("it has to end all the same: %+v", u)
	}
}
