// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/core/worker"
)

// trapped is a state on which nobody can schedule one job.
type trapped struct {
	*state.View
	job string
}

func (t trapped) JobByID(ns, id string) *model.Job {
	if id == t.job {
		panic("no job of ours has this value")
	}
	return t.View.JobByID(ns, id)
}

func TestAnEvaluationOnWhichTheSchedulerPanicsFailsAlone(t *testing.T) {
	l := newLeader(t, 0)
	l.node("n", 1000)
	w := l.worker(l.applier)
	w.View = func() worker.View { return trapped{l.store.View(), "bad"} }
	bad, good := l.register("bad", 1), l.register("good", 1)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx, ctx) })
	defer running.Wait()
	defer cancel()
	l.eventually("both are over", func(v *state.View) bool {
		return v.EvalByID(bad.ID).TerminalStatus() && v.EvalByID(good.ID).TerminalStatus()
	})
	v := l.store.View()
	if e := v.EvalByID(bad.ID); e.Status != model.EvalStatusFailed || e.StatusDescription != worker.DescDefect {
		t.Errorf("the bad one is %s: %s", e.Status, e.StatusDescription)
	}
	if n := len(v.EvalsByJob("default", "bad")); n != 1 {
		t.Errorf("%d evaluations of the bad job: it is tried again", n)
	}
	if e := v.EvalByID(good.ID); e.Status != model.EvalStatusComplete {
		t.Errorf("the good one is %s: %s", e.Status, e.StatusDescription)
	}
}

// fragile is an applier that panics once.
type fragile struct {
	worker.Applier
	once sync.Once
}

func (f *fragile) Submit(ctx context.Context, p *model.Plan) (*model.PlanResult, error) {
	f.once.Do(func() { panic("no plan of ours is like this") })
	return f.Applier.Submit(ctx, p)
}

func TestAnEvaluationOnWhichAWorkerPanicsIsTriedAgainAndTheWorkerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t, 0)
		l.node("n", 1000)
		w := l.worker(&fragile{Applier: l.applier})
		before := panics.Caught()
		e := l.register("j", 2)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx, ctx) })
		defer running.Wait()
		defer cancel()
		time.Sleep(time.Hour) // of the bubble
		v := l.store.View()
		if got := v.EvalByID(e.ID); got.Status != model.EvalStatusComplete || len(v.AllocsByJob("default", "j")) != 2 || panics.Caught()-before != 1 {
			t.Errorf("it is %s: %s, after %d panics", got.Status, got.StatusDescription, panics.Caught()-before)
		}
	})
}
