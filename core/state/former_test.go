// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// A job that is registered after a purge is a new one: nothing that its name
// brings along from before counts for it.
func TestWhatIsLeftOfAPurgedJobCountsForNothingOfTheNextOfItsName(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 1))
	register(t, s, job("web", 2))
	place(t, s, alloc("old0", 0))
	place(t, s, alloc("old1", 1))
	update(t, s, func(tx *state.Tx) error {
		return tx.SetJobVersionTag("default", "web", 1, &model.JobVersionTag{Name: "golden"})
	})
	update(t, s, func(tx *state.Tx) error { return tx.PurgeJob("default", "web") })
	created := register(t, s, job("web", 3))
	place(t, s, alloc("new", 0))

	v := s.View()
	if js := v.JobVersions("default", "web"); len(js) != 1 || js[0].Version != 0 || js[0].CreateIndex != created {
		t.Errorf("the new job has %d versions", len(js))
	}
	if v.JobByVersion("default", "web", 1) != nil {
		t.Error("a version of the purged job passes for one of the new")
	}
	for id, count := range map[string]int{"old0": 1, "old1": 2, "new": 3} {
		if j := v.JobOf(v.AllocByID(id)); j == nil || j.TaskGroups[0].Count != count {
			t.Errorf("%s runs %+v, want the version with count %d", id, j, count)
		}
	}
	check := func(want model.TaskGroupSummary, status string) {
		t.Helper()
		v := s.View()
		if got := v.JobSummary("default", "web").Summary["web"]; got != want {
			t.Errorf("summed up as %+v, want %+v", got, want)
		}
		if j := v.JobByID("default", "web"); j.Status != status {
			t.Errorf("the job is %s, want %s", j.Status, status)
		}
	}
	check(model.TaskGroupSummary{Starting: 1}, model.JobStatusRunning)
	report(t, s, &model.Allocation{ID: "old1", ClientStatus: model.AllocClientStatusFailed})
	report(t, s, &model.Allocation{ID: "new", ClientStatus: model.AllocClientStatusComplete})
	check(model.TaskGroupSummary{Complete: 1}, model.JobStatusDead) // though old0 lives
	update(t, s, func(tx *state.Tx) error { tx.RecountJobs(); return nil })
	check(model.TaskGroupSummary{Complete: 1}, model.JobStatusDead)

	if err := s.Update(s.View().Index()+1, func(tx *state.Tx) error {
		return tx.SetJobVersionTag("default", "web", 0, &model.JobVersionTag{Name: "golden"})
	}); err != nil {
		t.Errorf("a tag of the purged job is in the way: %v", err)
	}
	for _, id := range []string{"old0", "old1"} {
		update(t, s, func(tx *state.Tx) error { tx.DeleteAlloc(id); return nil })
	}
	check(model.TaskGroupSummary{Complete: 1}, model.JobStatusDead)
}

func TestVersionsOfAPurgedJobGoWithTheAllocsThatRanThem(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 1))
	place(t, s, alloc("old", 0))
	update(t, s, func(tx *state.Tx) error { return tx.PurgeJob("default", "web") })
	register(t, s, job("web", 2))
	old := s.View().AllocByID("old")
	register(t, s, job("web", 3))
	if s.View().JobOf(old) == nil {
		t.Fatal("the alloc lost its version while it is there")
	}
	update(t, s, func(tx *state.Tx) error { tx.DeleteAlloc("old"); return nil })
	register(t, s, job("web", 4))
	if s.View().JobOf(old) != nil {
		t.Error("the version of the purged job is kept for nobody")
	}
}
