// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
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

func TestTheServersClockSaysWhenAnAllocFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.log.write(t, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
		s.log.write(t, &fsm.RaiseLevel{Level: fsm.Level})
		s.register(t, idN1)
		s.place(t, idN1, "a1")
		ahead := time.Now().Add(time.Hour)
		failed := &model.Allocation{ID: "a1", ClientStatus: model.AllocClientStatusFailed, TaskStates: map[string]*model.TaskState{
			"t": {State: model.TaskStateDead, Failed: true, FinishedAt: &ahead},
		}}
		time.Sleep(time.Second)
		heard := time.Now()
		for range 2 {
			if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{failed.ReportSince(nil)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if at := s.store.View().AllocByID("a1").FailedSince(); !at.Equal(heard) {
			t.Errorf("it failed %s after servers heard of it", at.Sub(heard))
		}
	})
}

func TestAServiceThatEndedThoughItIsWantedIsStartedAgain(t *testing.T) {
	for kind, want := range map[string]int{model.JobTypeService: 1, model.JobTypeSystem: 1, model.JobTypeBatch: 0, model.JobTypeSysBatch: 0} {
		inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
			s.register(t, idN1)
			s.place(t, idN1, "a1") // an older state was restored: the node has stopped a1 since
			job := s.store.View().JobByID("default", "web").Copy()
			job.Type = kind
			s.log.write(t, &fsm.UpsertJob{Job: job})
			ended := &model.Allocation{ID: "a1", ClientStatus: model.AllocClientStatusComplete}
			for range 2 {
				if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{ended.ReportSince(nil)}); err != nil {
					t.Fatal(err)
				}
			}
			got := 0
			for _, e := range s.store.View().EvalsByJob("default", "web") {
				if e.TriggeredBy == model.EvalTriggerAllocStop {
					got++
				}
			}
			if got != want {
				t.Errorf("%s: %d evaluations begin", kind, got)
			}
		})
	}
}

// Reports are stored by short ids where all servers read them, and by whole ids if the
// allocs have changed since the proposal.
func TestReportsAreStoredByShortIDsWhereThatIsUnderstood(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		const one, two = "0b5e8d2c-6f1a-4c3e-9d7b-8a6f5e4d3c2b", "0b5e8d2c-6f1a-4c3e-9d7b-8a6f5e4d3c2c"
		s.register(t, idN1)
		s.place(t, idN1, one, two)
		words := ""
		report := func(status string) (kinds []string) {
			t.Helper()
			n := len(s.log.written)
			var reports []*model.AllocReport
			for _, id := range []string{one, two} {
				reports = append(reports, &model.AllocReport{ID: id, ClientStatus: status, ClientDescription: words})
			}
			if _, err := s.UpdateAllocs(ctx, identity(idN1), reports); err != nil {
				t.Fatal(err)
			}
			for _, c := range s.log.written[n:] {
				kinds = append(kinds, fmt.Sprintf("%T", c))
			}
			if a := s.store.View().AllocByID(two); a.ClientStatus != status || a.ClientDescription != words {
				t.Errorf("the alloc is %s (%s) and was reported %s (%s)", a.ClientStatus, a.ClientDescription, status, words)
			}
			return kinds
		}
		const whole, short = "*fsm.UpdateAllocsFromClient", "*fsm.ReportAllocs"
		if got := report("pending"); len(got) != 0 {
			t.Errorf("no news as %s", got)
		}
		if got := report("running"); !slices.Equal(got, []string{whole}) {
			t.Errorf("in a cluster of level 1: %s", got)
		}
		s.log.write(t, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
		s.log.write(t, &fsm.RaiseLevel{Level: fsm.LevelReportAllocs})
		if got := report("complete"); !slices.Equal(got, []string{short}) {
			t.Errorf("in a cluster of level %d: %s", fsm.LevelReportAllocs, got)
		}
		s.log.before = &fsm.DeleteEvals{AllocIDs: []string{one}}
		words = "All tasks have completed"
		if got := report("complete"); !slices.Equal(got, []string{short, whole}) {
			t.Errorf("after an alloc was deleted: %s", got)
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

func TestReportsOfSeveralNodesShareAnEntryAndOneAfterAPauseDoesNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		const nodes = 5
		var ids []string
		for i := range nodes {
			id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
			s.register(t, id)
			s.place(t, id, fmt.Sprint("a", i))
			ids = append(ids, id)
		}
		words := 0
		report := func(i int) {
			words++
			r := &model.AllocReport{ID: fmt.Sprint("a", i), ClientStatus: "running", ClientDescription: fmt.Sprint(words)}
			if _, err := s.UpdateAllocs(ctx, identity(ids[i]), []*model.AllocReport{r}); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Second)
		begun := time.Now()
		report(0)
		if took := time.Since(begun); took > 0 {
			t.Errorf("a single report took %s", took)
		}
		before := s.log.writes.Load()
		for i := range nodes {
			words := i + 100
			go func() {
				r := &model.AllocReport{ID: fmt.Sprint("a", i), ClientStatus: "running", ClientDescription: fmt.Sprint(words)}
				if _, err := s.UpdateAllocs(ctx, identity(ids[i]), []*model.AllocReport{r}); err != nil {
					t.Error(err)
				}
			}()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if got := s.log.writes.Load() - before; got != 1 {
			t.Errorf("%d entries", got)
		}
	})
}

func TestALoadedLeaderAsksNodesToReportLessOften(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.place(t, idN1, "a1")
		report := func(words string) time.Duration {
			answer, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{{ID: "a1", ClientStatus: "running", ClientDescription: words}})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if _, err := s.Beat(ctx, identity(idN1)); err != nil {
				t.Fatal(err)
			}
			return answer.Pause
		}
		if got := report("1"); got != 0 {
			t.Errorf("a leader without load asks for a pause of %s", got)
		}
		s.log.slow.Store(int64(300 * time.Millisecond))
		if got := report("2"); got != 1200*time.Millisecond {
			t.Errorf("after a commit of 300 ms the pause is %s", got)
		}
		s.log.slow.Store(int64(2 * time.Second))
		if got := report("3"); got != 5*time.Second {
			t.Errorf("after a commit of 2 s the pause is %s", got)
		}
		s.log.slow.Store(0)
		if got := report("4"); got != 0 {
			t.Errorf("after it has recovered the pause is %s", got)
		}
	})
}

func TestAReportOnAnAllocOfAnotherNodeChangesNothingAndIsLoggedOnce(t *testing.T) {
	journal := &testkit.Journal{}
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.register(t, idN2)
		s.place(t, idN1, "a1")
		s.place(t, idN2, "b1")
		for range 3 {
			if _, err := s.UpdateAllocs(ctx, identity(idN1), []*model.AllocReport{{ID: "b1", ClientStatus: "failed"}, {ID: "gone", ClientStatus: "failed"}, {ID: "a1", ClientStatus: "running"}}); err != nil {
				t.Fatal(err)
			}
		}
		if v := s.store.View(); v.AllocByID("b1").ClientStatus == "failed" || v.AllocByID("a1").ClientStatus != "running" {
			t.Errorf("the other's alloc is %s, and its own %s", v.AllocByID("b1").ClientStatus, v.AllocByID("a1").ClientStatus)
		}
		if n := strings.Count(journal.String(), "an alloc that is on another node"); n != 1 {
			t.Errorf("it was logged %d times: %s", n, journal)
		}
	}, func(cfg *dispatch.Config) { cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: journal}) })
}
