// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func running(id string, events ...*model.TaskEvent) *model.Allocation {
	return &model.Allocation{ID: id, ClientStatus: model.AllocClientStatusRunning, TaskStates: map[string]*model.TaskState{
		"t": {State: model.TaskStateRunning, LastEvent: uint64(len(events)), Events: events},
	}}
}

func TestAReportThatSaysNothingNewIsNotWrittenToTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.place(t, idN1, "a1")
		now := running("a1", &model.TaskEvent{Type: "Started", Time: 5})
		var writes int64
		for i := range 3 { // the answer was lost, or the agent has started again
			if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{now.ReportSince(nil)}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				writes = s.log.writes.Load()
			}
		}
		if got := s.log.writes.Load(); got != writes {
			t.Errorf("%d entries say nothing", got-writes)
		}
	})
}

func TestTheServersClockStampsReportsAndReturns(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.place(t, idN1, "a1")
		index := s.store.View().Index()
		s.log.write(t, &fsm.ApplyPlan{VerifiedIndex: index, Plan: &model.Plan{
			Namespace: "default", JobID: "web", SnapshotIndex: index, Change: []model.AllocChange{{Kind: model.AllocMarkUnknown, AllocID: "a1"}},
		}})
		healthy := running("a1", &model.TaskEvent{Type: "Started", Time: 5}) // the node's clock is wrong
		r := healthy.ReportSince(nil)
		r.Health = &model.HealthReport{Healthy: true}
		time.Sleep(time.Second)
		if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{r}); err != nil {
			t.Fatal(err)
		}
		a, now := s.store.View().AllocByID("a1"), time.Now()
		back := a.AllocStates[len(a.AllocStates)-1]
		if a.ModifyTime != now.UnixNano() || back.Value != model.AllocClientStatusRunning || !back.Time.Equal(now) || !a.DeploymentStatus.Timestamp.Equal(now) {
			t.Errorf("now is %v; modified %v, return %v, health of %v", now, time.Unix(0, a.ModifyTime), back, a.DeploymentStatus.Timestamp)
		}
	})
}

func TestServersAskForTheWholeOfWhatTheyMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.place(t, idN1, "a1", "a2")
		acked, now := running("a1", &model.TaskEvent{Type: "A", Time: 1}), running("a1", &model.TaskEvent{Type: "A", Time: 1}, &model.TaskEvent{Type: "B", Time: 2})
		answer, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{now.ReportSince(acked), running("a2").ReportSince(nil)})
		if err != nil || !slices.Equal(answer.Whole, []string{"a1"}) {
			t.Fatalf("answer %+v, %v", answer, err)
		}
		if v := s.store.View(); v.AllocByID("a1").TaskStates != nil || v.AllocByID("a2").ClientStatus != model.AllocClientStatusRunning {
			t.Error("what builds on nothing was taken, or what is whole was not")
		}
	})
}

func TestReportsThatMakeNoSenseAreRefusedAtTheDoor(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.place(t, idN1, "a1")
		writes := s.log.writes.Load()
		for name, r := range map[string]*model.AllocReport{
			"nil":        nil,
			"a nil task": {ID: "a1", ClientStatus: "running", Tasks: map[string]*model.TaskReport{"t": nil}},
			"lost":       {ID: "a1", ClientStatus: "lost"},
		} {
			if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{r}); !errdefs.IsInvalidArgument(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s.log.writes.Load() != writes {
			t.Error("something was written")
		}
	})
}

func TestAFullPushTellsWhatServersKnowOfEachAlloc(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.place(t, idN1, "a1", "a2")
		now := running("a1", &model.TaskEvent{Type: "Started", Time: 5})
		if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{now.ReportSince(nil)}); err != nil {
			t.Fatal(err)
		}
		pushed, _ := s.attach(ctx, idN1, nil)
		synctest.Wait()
		knows := map[string]uint64{}
		for _, x := range (<-pushed).Set {
			knows[x.AllocID] = x.Reported
		}
		if knows["a1"] != now.ReportDigest() || knows["a2"] == now.ReportDigest() {
			t.Errorf("the node is told %v, its own is %d", knows, now.ReportDigest())
		}
	})
}

func TestAnEventIsStoredOnceHoweverManyReportsFollow(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.place(t, idN1, "a1")
		var acked *model.Allocation
		var events []*model.TaskEvent
		for i := range 20 {
			events = append(events, &model.TaskEvent{Type: "Driver", Time: int64(i), Message: fmt.Sprint(i)})
			now := running("a1", events[max(0, i-9):]...)
			now.TaskStates["t"].LastEvent = uint64(i + 1)
			if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{now.ReportSince(acked)}); err != nil {
				t.Fatal(err)
			}
			acked = now
		}
		got := s.store.View().AllocByID("a1").TaskStates["t"]
		if len(got.Events) != 10 || got.Events[0].Message != "10" || got.Events[9].Message != "19" || got.LastEvent != 20 {
			t.Errorf("stored %+v", got)
		}
	})
}
