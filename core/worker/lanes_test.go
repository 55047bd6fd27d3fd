// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/worker"
)

func (l *leader) namespace(name string, q *model.QueueConfiguration) {
	l.t.Helper()
	l.propose(&fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: name, SchedulerConfiguration: &model.NamespaceSchedulerConfiguration{Queue: q}}}})
}

// raised lets the cluster store what servers of level 1 do not know.
func (l *leader) raised() {
	l.t.Helper()
	l.propose(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	l.propose(&fsm.RaiseLevel{Level: fsm.Level})
}

func yes() *bool { b := true; return &b }

func (l *leader) placed(job string) int {
	return len(l.store.View().AllocsByJob("default", job))
}

func TestJobsOfAnOrderedNamespaceArePlacedInTheOrderOfTheirSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 2)
		l.raised()
		l.namespace("default", &model.QueueConfiguration{Ordered: yes()})
		l.node("n1", 300)
		l.register("large", 5) // there is room for 3
		l.register("small", 1) // it would fit, but the one before it is not placed
		synctest.Wait()
		if l.placed("large") != 3 || l.placed("small") != 0 {
			t.Fatalf("%d of large, %d of small", l.placed("large"), l.placed("small"))
		}
		lanes := l.broker.Lanes()
		if len(lanes) != 1 || !lanes[0].Ordered || lanes[0].Blocked != 1 || lanes[0].Ready != 1 {
			t.Fatalf("%+v", lanes)
		}
		l.node("n2", 1000)
		synctest.Wait()
		if l.placed("large") != 5 || l.placed("small") != 1 {
			t.Fatalf("with more room: %d of large, %d of small", l.placed("large"), l.placed("small"))
		}
	})
}

func TestAJobThatIsChangedOrStoppedNoLongerHoldsUpThoseAfterIt(t *testing.T) {
	for name, change := range map[string]func(l *leader){
		"stopped": func(l *leader) {
			e := &model.Evaluation{ID: l.ids.NewID(), Namespace: "default", JobID: "large", Type: "batch", Priority: 50, Status: "pending", TriggeredBy: "job-deregister"}
			l.propose(&fsm.DeregisterJob{Namespace: "default", ID: "large", Eval: e})
		},
		"smaller": func(l *leader) { l.register("large", 3) },
		"order switched off": func(l *leader) {
			l.namespace("default", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeader(t, 2)
				l.raised()
				l.namespace("default", &model.QueueConfiguration{Ordered: yes()})
				l.node("n1", 300)
				l.register("large", 5)
				l.register("tiny", 1, func(r *model.Resources) { r.CPU = 0 })
				synctest.Wait()
				if l.placed("tiny") != 0 {
					t.Fatal("it did not wait")
				}
				change(l)
				synctest.Wait()
				if l.placed("tiny") != 1 {
					t.Error("it still waits")
				}
			})
		})
	}
}

func TestANewLeaderHasTheSameLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 0)
		l.raised()
		l.namespace("default", &model.QueueConfiguration{Weight: 7, MaxDepth: 9})
		for i := range 5 {
			l.register(fmt.Sprint("j", i), 1)
		}
		synctest.Wait()
		before := l.broker.Lanes()
		next := queue.NewBroker(queue.Config{Lanes: worker.Lanes{Store: l.store}}) // of the server that leads then
		feeder := &worker.Feeder{Store: l.store, Broker: next, Blocked: queue.NewBlocked(next.Enqueue), Logger: hclog.NewNullLogger()}
		ctx, cancel := context.WithCancel(t.Context())
		var leads sync.WaitGroup
		leads.Go(func() { feeder.Run(ctx) })
		defer leads.Wait()
		defer cancel()
		synctest.Wait()
		after := next.Lanes()
		if len(after) != 1 || fmt.Sprint(after) != fmt.Sprint(before) || after[0].Ready != 5 || after[0].Weight != 7 || after[0].MaxDepth != 9 {
			t.Errorf("%+v, was %+v", after, before)
		}
		for i := range 5 {
			e, _, err := next.Dequeue(ctx)
			if err != nil || e.JobID != fmt.Sprint("j", i) {
				t.Errorf("%d is %+v (%v)", i, e, err)
			}
		}
	})
}

func TestFreedRoomWakesOnlyWhatFitsAndWhatIsInItsPool(t *testing.T) {
	woken := map[string]bool{}
	b := queue.NewBlocked(func(es ...*model.Evaluation) {
		for _, e := range es {
			woken[e.ID] = true
		}
	})
	b.SetEnabled(true)
	for id, need := range map[string]queue.Need{
		"fits":         {Pool: "default", Amounts: []queue.Amount{{CPU: 900}, {CPU: 100, Devices: 1}}},
		"any pool":     {Pool: "all", Amounts: []queue.Amount{{CPU: 100}}},
		"unknown":      {Pool: "default"},
		"too large":    {Pool: "default", Amounts: []queue.Amount{{CPU: 100, Memory: 51}, {CPU: 200}}},
		"more devices": {Pool: "default", Amounts: []queue.Amount{{Devices: 2}}},
		"other pool":   {Pool: "gpu", Amounts: []queue.Amount{{CPU: 1}}},
	} {
		b.Block(&model.Evaluation{ID: id, JobID: id, Status: "blocked", SnapshotIndex: 5}, need)
	}
	b.Unblock(queue.Room{Class: "c", Pool: "default", Free: queue.Amount{CPU: 150, Memory: 50, Devices: 1}}, 9)
	if len(woken) != 3 || !woken["fits"] || !woken["any pool"] || !woken["unknown"] || b.Len() != 3 {
		t.Errorf("woken: %v", woken)
	}
	b.UnblockAll(10)
	if len(woken) != 6 {
		t.Errorf("a change of the configuration wakes all, but %v", woken)
	}
}

func TestAnEvaluationWithoutRoomIsNotTriedAgainForLessThanItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 1)
		l.node("n1", 100)
		l.node("n2", 100)
		l.register("small", 2)
		synctest.Wait()
		l.register("large", 1, func(r *model.Resources) { r.CPU = 200 })
		synctest.Wait()
		var waits *model.Evaluation
		for e := range l.store.View().Evals() {
			if e.Status == model.EvalStatusBlocked {
				waits = e
			}
		}
		if waits == nil {
			t.Fatal("nothing is blocked")
		}
		a := l.store.View().AllocsByJob("default", "small")[0]
		ended := *a
		ended.ClientStatus = model.AllocClientStatusComplete
		l.propose(&fsm.UpdateAllocsFromClient{Reports: []*model.AllocReport{ended.ReportSince(nil)}})
		synctest.Wait()
		if e := l.store.View().EvalByID(waits.ID); e.ModifyIndex != waits.ModifyIndex {
			t.Errorf("it was tried again for 100 MHz, and needs 200: %+v", e)
		}
		l.node("n3", 200)
		synctest.Wait()
		if l.placed("large") != 1 {
			t.Error("it was not tried where there is room")
		}
	})
}

// The one that waits needs more than there is on the node where the volume was used.
func TestTheEndOfAnAllocWithAVolumeOfCSIWakesWhatWaitsForRoomElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 1)
		l.node("n1", 100)
		tx := l.store.Begin()
		index := l.store.View().Index() + 1
		tx.SetIndex(index)
		job := tx.UpsertJob(&model.Job{
			ID: "db", Name: "db", Namespace: "default", Type: "batch", Priority: 50,
			TaskGroups: []*model.TaskGroup{{Name: "g", Volumes: map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "v"}}}},
		}, nil)
		tx.PlaceAlloc(&model.Allocation{
			ID: "a", Namespace: "default", JobID: "db", JobVersion: job.Version, Job: job, TaskGroup: "g", Name: "db.g[0]", NodeID: "n1",
			DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusPending,
		}, 1)
		tx.Commit()
		l.register("large", 1, func(r *model.Resources) { r.CPU = 200 })
		synctest.Wait()
		tried := func() (times int) {
			for e := range l.store.View().Evals() {
				if e.JobID == "large" && e.Status == model.EvalStatusBlocked {
					return int(e.ModifyIndex)
				}
			}
			return 0
		}
		before := tried()
		if before == 0 {
			t.Fatal("nothing is blocked")
		}
		ended := *l.store.View().AllocByID("a")
		ended.ClientStatus = model.AllocClientStatusComplete
		l.propose(&fsm.UpdateAllocsFromClient{Reports: []*model.AllocReport{ended.ReportSince(nil)}})
		synctest.Wait()
		if after := tried(); after == before {
			t.Error("it was not tried again, though the volume may have been what it waited for")
		}
	})
}
