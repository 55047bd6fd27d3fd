// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// deploying is a state in which a job of two allocs is being deployed; both run
// and are healthy.
func deploying(t *testing.T, group model.DeploymentState) *state.Store {
	t.Helper()
	s := state.New()
	register(t, s, job("web", 2))
	update(t, s, func(tx *state.Tx) error {
		tx.UpsertDeployment(&model.Deployment{ID: "d1", Namespace: "default", JobID: "web", Status: model.DeploymentStatusRunning,
			TaskGroups: map[string]*model.DeploymentState{"web": &group}}, 1)
		return nil
	})
	healthy := true
	for _, id := range []string{"a1", "a2"} {
		a := alloc(id, 0)
		a.DeploymentID, a.DeploymentStatus = "d1", &model.AllocDeploymentStatus{Canary: group.DesiredCanaries > 0}
		place(t, s, a)
		report(t, s, &model.Allocation{ID: id, DeploymentID: "d1", ClientStatus: model.AllocClientStatusRunning,
			DeploymentStatus: &model.AllocDeploymentStatus{Healthy: &healthy, Timestamp: time.Unix(100, 0)}})
	}
	return s
}

func setDeployment(t *testing.T, s *state.Store, status string, at time.Time) {
	t.Helper()
	update(t, s, func(tx *state.Tx) error {
		return tx.UpdateDeploymentStatus(&model.DeploymentStatusUpdate{DeploymentID: "d1", Status: status, UpdatedAt: at.UnixNano()})
	})
}

func TestAnAllocThatIsLostStoppedOrFailsLaterIsNotCountedAsHealthy(t *testing.T) {
	ends := map[string]func(*state.Tx) error{
		"lost": func(tx *state.Tx) error {
			return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: "a1", ClientStatus: model.AllocClientStatusLost}, "e", 5)
		},
		"moved": func(tx *state.Tx) error {
			return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: "a1"}, "e", 5)
		},
		"failed": func(tx *state.Tx) error {
			return tx.UpdateAllocFromClient(&model.AllocReport{ID: "a1", ClientStatus: model.AllocClientStatusFailed}, 5)
		},
	}
	for name, end := range ends {
		s := deploying(t, model.DeploymentState{DesiredTotal: 2, DesiredCanaries: 2, ProgressDeadline: time.Minute})
		update(t, s, end)
		if g := s.View().DeploymentByID("d1").TaskGroups["web"]; g.HealthyAllocs != 1 || g.PlacedAllocs != 2 {
			t.Errorf("%s: %+v", name, g)
		}
		err := s.Update(s.View().Index()+1, func(tx *state.Tx) error { return tx.PromoteDeployment("d1", nil, 5) })
		if !errdefs.IsFailedPrecondition(err) {
			t.Errorf("%s: promoted with one canary of two: %v", name, err)
		}
		update(t, s, func(tx *state.Tx) error {
			return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: "a1"}, "e", 6)
		})
		if g := s.View().DeploymentByID("d1").TaskGroups["web"]; g.HealthyAllocs != 1 {
			t.Errorf("%s and then stopped, it is taken away twice: %+v", name, g)
		}
	}
}

func TestADeploymentThatIsOverKeepsItsCounts(t *testing.T) {
	s := deploying(t, model.DeploymentState{DesiredTotal: 2})
	setDeployment(t, s, model.DeploymentStatusSuccessful, time.Unix(101, 0))
	update(t, s, func(tx *state.Tx) error {
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: "a1"}, "e", 5)
	})
	if g := s.View().DeploymentByID("d1").TaskGroups["web"]; g.HealthyAllocs != 2 {
		t.Errorf("%+v", g)
	}
}

func TestADeploymentAndItsFirstCountersAreOneChange(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 2))
	feed := s.Subscribe(state.TableDeployments)
	defer feed.Close()
	update(t, s, func(tx *state.Tx) error {
		tx.UpsertDeployment(&model.Deployment{ID: "d1", Namespace: "default", JobID: "web", Status: model.DeploymentStatusRunning,
			TaskGroups: map[string]*model.DeploymentState{"web": {DesiredTotal: 2}}}, 1)
		for _, id := range []string{"a1", "a2"} {
			a := alloc(id, 0)
			a.DeploymentID = "d1"
			tx.PlaceAlloc(a, 1)
		}
		return nil
	})
	b, err := feed.Next(t.Context())
	if err != nil || len(b.Changes) != 1 {
		t.Fatalf("%d changes, %v", len(b.Changes), err)
	}
	if d := b.Changes[0].New.(*model.Deployment); b.Changes[0].Old != nil || d.TaskGroups["web"].PlacedAllocs != 2 || d != s.View().DeploymentByID("d1") {
		t.Errorf("%+v", d)
	}
}

func TestTheTimeOfAPauseIsNotCountedAgainstTheDeadline(t *testing.T) {
	s := deploying(t, model.DeploymentState{DesiredTotal: 3, ProgressDeadline: time.Minute})
	setDeployment(t, s, model.DeploymentStatusPaused, time.Unix(110, 0))
	resumed := time.Unix(5000, 0)
	setDeployment(t, s, model.DeploymentStatusRunning, resumed)
	by := func() time.Time { return s.View().DeploymentByID("d1").TaskGroups["web"].RequireProgressBy }
	if !by().Equal(resumed.Add(time.Minute)) {
		t.Fatalf("resumed at %s, it must progress by %s", resumed, by())
	}
	setDeployment(t, s, model.DeploymentStatusRunning, resumed.Add(time.Hour)) // resumed again by mistake
	if !by().Equal(resumed.Add(time.Minute)) {
		t.Fatalf("a deployment that runs was given more time: %s", by())
	}
}

func TestADeploymentThatHasEndedIsNotOpenedByAPlanMadeBefore(t *testing.T) {
	s := deploying(t, model.DeploymentState{DesiredTotal: 2})
	setDeployment(t, s, model.DeploymentStatusFailed, time.Unix(200, 0))
	update(t, s, func(tx *state.Tx) error {
		tx.UpsertDeployment(&model.Deployment{ID: "d1", Namespace: "default", JobID: "web", Status: model.DeploymentStatusRunning}, 300)
		return nil
	})
	if d := s.View().DeploymentByID("d1"); d.Status != model.DeploymentStatusFailed {
		t.Errorf("it is %s again", d.Status)
	}
}

func TestAPausedDeploymentIsNotSuccessfulByADecisionFromBefore(t *testing.T) {
	s := deploying(t, model.DeploymentState{DesiredTotal: 2})
	update(t, s, func(tx *state.Tx) error { tx.BeginTerm("c", "t"); tx.RaiseLevel(2, ""); return nil })
	setDeployment(t, s, model.DeploymentStatusPaused, time.Unix(110, 0))
	err := s.Update(s.View().Index()+1, func(tx *state.Tx) error {
		return tx.UpdateDeploymentStatus(&model.DeploymentStatusUpdate{DeploymentID: "d1", Status: model.DeploymentStatusSuccessful})
	})
	if !errdefs.IsFailedPrecondition(err) || s.View().DeploymentByID("d1").Status != model.DeploymentStatusPaused {
		t.Errorf("got %v, it is %s", err, s.View().DeploymentByID("d1").Status)
	}
}

func TestTheLossOfAHealthyAllocRestartsTheDeadlineAndEndsItsFollowUp(t *testing.T) {
	s := deploying(t, model.DeploymentState{DesiredTotal: 2, ProgressDeadline: time.Minute})
	update(t, s, func(tx *state.Tx) error { tx.BeginTerm("c", "t"); tx.RaiseLevel(2, ""); return nil })
	update(t, s, func(tx *state.Tx) error {
		tx.UpsertEval(&model.Evaluation{ID: "e", Namespace: "default", JobID: "web", Status: model.EvalStatusPending})
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocSetFollowUp, AllocID: "a1", FollowupEvalID: "e"}, "e", 5)
	})
	lost := time.Unix(5000, 0)
	update(t, s, func(tx *state.Tx) error {
		return tx.UpdateAllocFromClient(&model.AllocReport{ID: "a1", ClientStatus: model.AllocClientStatusFailed}, lost.UnixNano())
	})
	if by := s.View().DeploymentByID("d1").TaskGroups["web"].RequireProgressBy; !by.Equal(lost.Add(time.Minute)) {
		t.Errorf("it must progress by %s", by)
	}
	if id := s.View().AllocByID("a1").FollowupEvalID; id != "" { // it was for the time before it failed
		t.Errorf("the follow-up is still %s", id)
	}
}

// An alloc that crashes after each min_healthy_time must not keep its deployment open for ever.
func TestWhatFailsAndBecomesHealthyAgainDoesNotRestartTheDeadline(t *testing.T) {
	s := deploying(t, model.DeploymentState{DesiredTotal: 3, ProgressDeadline: time.Minute})
	update(t, s, func(tx *state.Tx) error { tx.BeginTerm("c", "t"); tx.RaiseLevel(2, ""); return nil })
	healthy, sick := true, false
	by := func() time.Time { return s.View().DeploymentByID("d1").TaskGroups["web"].RequireProgressBy }
	failed := func(id string, at int64) {
		update(t, s, func(tx *state.Tx) error {
			return tx.UpdateAllocFromClient(&model.AllocReport{ID: id, ClientStatus: model.AllocClientStatusFailed}, at*int64(time.Second))
		})
	}
	replace := func(id, previous string, at int64, health *bool) {
		a := alloc(id, 0)
		a.DeploymentID, a.PreviousAllocation, a.DeploymentStatus = "d1", previous, &model.AllocDeploymentStatus{}
		place(t, s, a)
		update(t, s, func(tx *state.Tx) error {
			now := &model.Allocation{ID: id, DeploymentID: "d1", ClientStatus: model.AllocClientStatusRunning, DeploymentStatus: &model.AllocDeploymentStatus{Healthy: health}}
			return tx.UpdateAllocFromClient(now.ReportSince(nil), at*int64(time.Second))
		})
	}
	want := by()
	failed("a1", 110)
	replace("b1", "a1", 120, &healthy)
	failed("b1", 130)
	replace("c1", "b1", 140, &sick)
	failed("c1", 145)
	replace("e1", "c1", 150, &healthy)
	if !by().Equal(want) {
		t.Fatalf("the deadline is %s, want %s", by(), want)
	}
	replace("a3", "", 155, &healthy) // this one is progress, and completes the group
	if want := time.Unix(215, 0); !by().Equal(want) {
		t.Errorf("after progress the deadline is %s, want %s", by(), want)
	}
	failed("e1", 300)
	if want := time.Unix(360, 0); !by().Equal(want) {
		t.Errorf("the group was complete, so that its next alloc has until %s, want %s", by(), want)
	}
}

// The scheduler leaves out the deadline of a group that waits for what it depends on, and
// begins it when the group is released.
func TestAPlanBeginsADeadlineButMovesNone(t *testing.T) {
	s := deploying(t, model.DeploymentState{DesiredTotal: 3})
	update(t, s, func(tx *state.Tx) error { tx.BeginTerm("c", "t"); tx.RaiseLevel(2, ""); return nil })
	plan := func(by time.Time) time.Time {
		update(t, s, func(tx *state.Tx) error {
			d := s.View().DeploymentByID("d1").Copy()
			d.Status = model.DeploymentStatusRunning
			for _, g := range d.TaskGroups {
				g.RequireProgressBy, g.PlacedAllocs = by, 0
			}
			tx.UpsertDeployment(d, 300)
			return nil
		})
		g := s.View().DeploymentByID("d1").TaskGroups["web"]
		if g.PlacedAllocs != 2 {
			t.Errorf("%d allocs are counted", g.PlacedAllocs)
		}
		return g.RequireProgressBy
	}
	at := time.Unix(5000, 0).UTC()
	if by := plan(at); !by.Equal(at) {
		t.Errorf("it must progress by %s", by)
	}
	if by := plan(at.Add(time.Hour)); !by.Equal(at) {
		t.Errorf("it must progress by %s, later than before", by)
	}
	setDeployment(t, s, model.DeploymentStatusPaused, at)
	if plan(at); s.View().DeploymentByID("d1").Status != model.DeploymentStatusPaused {
		t.Error("a plan that was made before the pause ends it")
	}
}
