// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

// dependent registers a batch job of one alloc that waits until another job is complete.
func (l *leader) dependent(id, on string, limit time.Duration) *model.Evaluation {
	j := &model.Job{
		ID: id, Name: id, Namespace: "default", Type: "batch", Priority: 50, Datacenters: []string{"*"}, NodePool: "default", SubmitTime: time.Now().UnixNano(),
		DependsOn:  []*model.Dependency{{Name: on, Condition: model.DependencyComplete, Timeout: limit}},
		TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Resources: &model.Resources{CPU: 100, MemoryMB: 10}}}}},
	}
	e := &model.Evaluation{ID: l.ids.NewID(), Namespace: "default", JobID: id, Type: "batch", Priority: 50, Status: "pending", TriggeredBy: "job-register"}
	l.propose(&fsm.UpsertJob{Job: j, Eval: e})
	return e
}

// complete ends the allocs of a job well.
func (l *leader) complete(job string) {
	l.t.Helper()
	for _, a := range l.store.View().AllocsByJob("default", job) {
		ended := *a
		ended.ClientStatus = model.AllocClientStatusComplete
		l.propose(&fsm.UpdateAllocsFromClient{Reports: []*model.AllocReport{ended.ReportSince(nil)}})
	}
}

// newest returns the newest evaluation of a job: of those written together the one that waits.
func (l *leader) newest(job string) (newest *model.Evaluation) {
	for _, e := range l.store.View().EvalsByJob("default", job) {
		if newest == nil || e.ModifyIndex > newest.ModifyIndex || e.ModifyIndex == newest.ModifyIndex && e.Status == model.EvalStatusBlocked {
			newest = e
		}
	}
	return newest
}

func TestWhatAJobWaitedForReleasesItAndRoomDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 2)
		l.raised()
		l.node("n1", 1000)
		l.dependent("report", "load", 0)
		l.dependent("load", "extract", 0)
		synctest.Wait()
		if l.placed("report")+l.placed("load") != 0 || l.blocked.Len() != 2 {
			t.Fatalf("%d and %d allocs, %d evaluations are blocked", l.placed("report"), l.placed("load"), l.blocked.Len())
		}
		if e := l.newest("load"); e.Status != "blocked" || !strings.Contains(e.StatusDescription, `waits for job "extract" to be complete: it does not exist`) {
			t.Errorf("%s: %s", e.Status, e.StatusDescription)
		}
		before := l.log.index
		l.node("n2", 1000)
		synctest.Wait()
		if l.log.index != before+1 {
			t.Errorf("room has woken what waits for no room: %d entries", l.log.index-before-1)
		}
		l.register("extract", 1)
		synctest.Wait()
		for _, step := range []string{"extract", "load", "report"} {
			if n := l.placed(step); n != 1 {
				t.Fatalf("%d allocs of %s", n, step)
			}
			l.complete(step)
			synctest.Wait()
		}
		if e := l.newest("report"); e.Status != "complete" || l.blocked.Len() != 0 {
			t.Errorf("in the end: %s, %d are blocked", e.Status, l.blocked.Len())
		}
	})
}

func TestAWaitEndsAtItsLimitAlsoAfterAChangeOfTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 1)
		l.raised()
		l.node("n1", 1000)
		l.dependent("report", "load", time.Minute)
		synctest.Wait()
		time.Sleep(30 * time.Second)
		l.propose(flood()) // the queues are filled anew, as on a new leader
		synctest.Wait()
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if e := l.newest("report"); e.Status != "blocked" {
			t.Fatalf("a second before the limit it is %s", e.Status)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		e := l.newest("report")
		if e.Status != "failed" || !strings.Contains(e.StatusDescription, "has waited too long") || l.blocked.Len() != 0 {
			t.Errorf("at the limit: %s, %s", e.Status, e.StatusDescription)
		}
		if j := l.store.View().JobByID("default", "report"); j.Status != model.JobStatusDead {
			t.Errorf("the job is %s", j.Status)
		}
	})
}

// The job for which the first one waits is behind it in the lane.
func TestAJobThatWaitsForAnotherDoesNotHoldItsLaneUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 2)
		l.raised()
		l.namespace("default", &model.QueueConfiguration{Ordered: yes()})
		l.node("n1", 1000)
		l.dependent("report", "load", 0)
		synctest.Wait()
		l.register("load", 1)
		synctest.Wait()
		if l.placed("load") != 1 {
			t.Fatal("the job behind it waits")
		}
		l.complete("load")
		synctest.Wait()
		if l.placed("report") != 1 {
			t.Error("it is not released")
		}
	})
}

// What is left of the purged job still runs when it is registered again.
func TestAJobThatIsPurgedIsWaitedForUntilTheNextOneOfItsNameIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 1)
		l.raised()
		l.node("n1", 1000)
		l.register("load", 1)
		l.dependent("report", "load", 0)
		synctest.Wait()
		if l.placed("load") != 1 || l.placed("report") != 0 {
			t.Fatalf("%d of load and %d of report are placed", l.placed("load"), l.placed("report"))
		}
		purge := &model.Evaluation{ID: l.ids.NewID(), Namespace: "default", JobID: "load", Type: "batch", Priority: 50, Status: "pending", TriggeredBy: "job-deregister"}
		l.propose(&fsm.DeregisterJob{Namespace: "default", ID: "load", Purge: true, Eval: purge})
		synctest.Wait()
		l.complete("load") // it ended well, but it was asked to stop, and its job is gone
		synctest.Wait()
		if l.placed("report") != 0 {
			t.Fatal("it was released by a job that does not exist")
		}
		l.register("load", 1)
		synctest.Wait()
		if l.placed("report") != 0 {
			t.Fatal("it was released by what the purged job has left")
		}
		l.complete("load")
		synctest.Wait()
		if l.placed("report") != 1 || l.blocked.Len() != 0 {
			t.Errorf("%d of report are placed, %d evaluations are blocked", l.placed("report"), l.blocked.Len())
		}
	})
}
