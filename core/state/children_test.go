// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// The newest launch counts, so that none is repeated. One that lies so far ahead that only a
// wrong clock can have made it does not: the job would never be launched again.
func TestTheNewestLaunchOfAPeriodicJobIsKeptUnlessItsTimeCannotBe(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	for ahead, kept := range map[time.Duration]bool{-time.Second: false, 0: false, 1: true, state.ClockTrust: true, state.ClockTrust + 1: false} {
		s := state.New()
		for i, launch := range []time.Time{at.Add(ahead), at} {
			if err := s.Update(uint64(10+i), func(tx *state.Tx) error {
				tx.SetPeriodicLaunch(&model.PeriodicLaunch{Namespace: "default", ID: "j", Launch: launch.UnixNano()})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		want, index := at, uint64(11)
		if kept {
			want, index = at.Add(ahead), 10
		}
		got := s.View().PeriodicLaunch("default", "j")
		if got.Launch != want.UnixNano() || got.CreateIndex != 10 || got.ModifyIndex != index {
			t.Errorf("after one %s later: %+v", ahead, got)
		}
		if other := s.View().PeriodicLaunch("default", "k"); other != nil {
			t.Errorf("another job has the launch %+v", other)
		}
	}
}

func TestAParentCountsItsChildrenByTheirStatus(t *testing.T) {
	s, index := state.New(), uint64(10)
	update := func(f func(tx *state.Tx) error) {
		t.Helper()
		if index++; s.Update(index, f) != nil {
			t.Fatal("the update failed")
		}
	}
	job := func(id, parent string) *model.Job {
		return &model.Job{Namespace: "default", ID: id, ParentID: parent, Type: model.JobTypeBatch, TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1}}}
	}
	parent := job("p", "")
	parent.ParameterizedJob = &model.ParameterizedJobConfig{}
	update(func(tx *state.Tx) error { tx.UpsertJob(parent, nil); return nil })
	expect := func(when string, pending, running, dead int64) {
		t.Helper()
		got := s.View().JobSummary("default", "p").Children
		if got == nil || *got != (model.JobChildrenSummary{Pending: pending, Running: running, Dead: dead}) {
			t.Errorf("%s: %+v", when, got)
		}
	}
	for _, id := range []string{"p/1", "p/2"} {
		update(func(tx *state.Tx) error { tx.UpsertJob(job(id, "p"), nil); return nil })
	}
	update(func(tx *state.Tx) error { tx.UpsertJob(job("alone", ""), nil); return nil })
	expect("two children", 2, 0, 0)
	if got := s.View().JobSummary("default", ""); got != nil {
		t.Errorf("one without a parent is counted by %+v", got)
	}
	update(func(tx *state.Tx) error {
		tx.PlaceAlloc(&model.Allocation{ID: "a", Namespace: "default", JobID: "p/1", TaskGroup: "g", NodeID: "n", DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusRunning}, 1)
		return nil
	})
	expect("one runs", 1, 1, 0)
	update(func(tx *state.Tx) error {
		return tx.UpdateAllocFromClient(&model.AllocReport{ID: "a", ClientStatus: model.AllocClientStatusComplete}, 2)
	})
	expect("it has ended", 1, 0, 1)
	update(func(tx *state.Tx) error { return tx.PurgeJob("default", "p/2") })
	expect("the other is purged", 0, 0, 1)
}

func TestAChildIsFoundByTheTokenOfItsDispatch(t *testing.T) {
	s := state.New()
	if err := s.Update(10, func(tx *state.Tx) error {
		for id, token := range map[string]string{"p/1": "t", "p/2": ""} {
			tx.UpsertJob(&model.Job{Namespace: "default", ID: id, ParentID: "p", DispatchIdempotencyToken: token, Type: model.JobTypeBatch}, nil)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ns, parent, token, want string }{
		{"default", "p", "t", "p/1"}, {"default", "p", "", ""}, {"default", "p", "u", ""}, {"default", "q", "t", ""}, {"other", "p", "t", ""},
	} {
		got := ""
		if j := s.View().JobByDispatchToken(c.ns, c.parent, c.token); j != nil {
			got = j.ID
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
