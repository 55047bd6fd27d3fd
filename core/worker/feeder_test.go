// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// flood is more changes than a feed holds, of evaluations that are over.
func flood() fsm.Command {
	evals := make([]*model.Evaluation, state.FeedLimit+1)
	for i := range evals {
		evals[i] = &model.Evaluation{ID: fmt.Sprint("flood-", i), Status: model.EvalStatusComplete}
	}
	return &fsm.UpsertEvals{Evals: evals}
}

// gate is an applier that holds the first plan until it is opened.
type gate struct {
	*leader
	once    sync.Once
	reached chan struct{}
	open    chan struct{}
}

func newGate(l *leader) *gate {
	return &gate{leader: l, reached: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) Submit(ctx context.Context, p *model.Plan) (*model.PlanResult, error) {
	first := false
	g.once.Do(func() { first = true })
	if first {
		close(g.reached)
		<-g.open
	}
	return g.applier.Submit(ctx, p)
}

func TestWhatAWorkerHoldsIsNotGivenToAnotherWhenTheFeedStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 0)
		g := newGate(l)
		l.work(2, g)
		l.node("n1", 1000)
		e := l.register("j", 4)
		<-g.reached
		l.propose(flood())
		synctest.Wait() // the other worker has nothing to do
		close(g.open)
		synctest.Wait()
		v := l.store.View()
		if n := len(v.AllocsByJob("default", "j")); n != 4 || v.EvalByID(e.ID).Status != "complete" {
			t.Errorf("%d allocs of 4, the evaluation is %s", n, v.EvalByID(e.ID).Status)
		}
		if s := l.broker.Stats(); s.Unacked+s.Ready+s.Waiting+s.Delayed != 0 {
			t.Errorf("left in the broker: %+v", s)
		}
	})
}

func TestAPausedBrokerKeepsWhatWorkersHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 0)
		g := newGate(l)
		l.work(2, g)
		l.node("n1", 1000)
		l.register("j", 4)
		<-g.reached
		l.propose(&fsm.SetSchedulerConfig{Config: &model.SchedulerConfiguration{PauseEvalBroker: true}})
		l.register("later", 1)
		synctest.Wait()
		if n := len(l.store.View().AllocsByJob("default", "later")); n != 0 {
			t.Errorf("%d allocs while the broker is paused", n)
		}
		l.propose(&fsm.SetSchedulerConfig{Config: &model.SchedulerConfiguration{}})
		synctest.Wait()
		close(g.open)
		synctest.Wait()
		v := l.store.View()
		if n, m := len(v.AllocsByJob("default", "j")), len(v.AllocsByJob("default", "later")); n != 4 || m != 1 {
			t.Errorf("%d allocs of 4, and %d of 1", n, m)
		}
	})
}

func TestAWorkerThatIsDismissedFinishesWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 0)
		g := newGate(l)
		taking, dismiss := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); l.worker(g).Run(t.Context(), taking) }()
		l.node("n1", 1000)
		e := l.register("j", 2)
		<-g.reached
		start := time.Now()
		dismiss()
		close(g.open)
		<-ended
		v := l.store.View()
		if n := len(v.AllocsByJob("default", "j")); n != 2 || v.EvalByID(e.ID).Status != "complete" || time.Since(start) > time.Second {
			t.Errorf("%d allocs of 2, the evaluation is %s after %s", n, v.EvalByID(e.ID).Status, time.Since(start))
		}
		if s := l.broker.Stats(); s.Unacked != 0 {
			t.Errorf("still held: %+v", s)
		}
	})
}

func TestRoomThatCameWhileTheFeedWasLostIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 1)
		l.node("n1", 100)
		l.register("j", 2)
		synctest.Wait()
		if l.blocked.Len() != 1 {
			t.Fatalf("%d evaluations wait for room, want 1", l.blocked.Len())
		}
		// One batch: the node and more changes than the feed holds.
		n := l.store.View().NodeByID("n1").Copy()
		n.ID, n.Name = "n2", "n2"
		l.propose(&fsm.Batch{Commands: []fsm.Command{&fsm.RegisterNode{Node: n}, flood()}})
		synctest.Wait()
		if got := len(l.store.View().AllocsByJob("default", "j")); got != 2 {
			t.Errorf("%d allocs of 2 where there is room for both", got)
		}
	})
}

func TestABlockedEvaluationThatTheStateHasCancelledLeavesTheBlockedSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 1)
		e := l.register("j", 1)
		synctest.Wait()
		if l.blocked.Len() != 1 {
			t.Fatalf("%d evaluations wait for room, want 1", l.blocked.Len())
		}
		b := l.store.View().EvalByID(l.store.View().EvalByID(e.ID).BlockedEval).Copy()
		b.Status = model.EvalStatusCancelled
		l.propose(&fsm.UpsertEvals{Evals: []*model.Evaluation{b}})
		synctest.Wait()
		if l.blocked.Len() != 0 {
			t.Error("it is still kept")
		}
		l.node("n1", 1000)
		synctest.Wait()
		if n := len(l.store.View().AllocsByJob("default", "j")); n != 0 {
			t.Errorf("a cancelled evaluation has placed %d allocs", n)
		}
	})
}

// refusing is an applier that refuses the first plans.
type refusing struct {
	*leader
	mu    sync.Mutex
	left  int
	times []time.Time
}

func (r *refusing) Submit(ctx context.Context, p *model.Plan) (*model.PlanResult, error) {
	r.mu.Lock()
	r.times = append(r.times, time.Now())
	refuse := r.left > 0
	r.left--
	r.mu.Unlock()
	if refuse {
		return &model.PlanResult{Rejections: []model.PlanRejection{{NodeID: "n1", Reason: "it is full"}}, RefreshIndex: r.store.View().Index()}, nil
	}
	return r.applier.Submit(ctx, p)
}

func TestConflictsAreTriedAgainAfterATimeThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 0)
		r := &refusing{leader: l, left: 15}
		l.work(1, r)
		l.node("n1", 1000)
		l.register("j", 2)
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(l.store.View().AllocsByJob("default", "j")); n != 2 {
			t.Errorf("%d allocs of 2", n)
		}
		if len(r.times) != 16 {
			t.Fatalf("%d plans, want 5 three times and the one that was taken", len(r.times))
		}
		for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			if got := r.times[5*i+5].Sub(r.times[5*i+4]); got != want {
				t.Errorf("after conflict %d it is tried again after %s, want %s", i+1, got, want)
			}
		}
	})
}
