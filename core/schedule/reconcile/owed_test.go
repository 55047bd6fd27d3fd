// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

func TestWhatFoundNoRoomWhenItsPredecessorWasStoppedReplacesItStill(t *testing.T) {
	stopped := func(desc string) func(*model.Allocation) {
		return func(a *model.Allocation) {
			a.DesiredStatus, a.DesiredDescription, a.ClientStatus = model.AllocDesiredStatusStop, desc, model.AllocClientStatusComplete
		}
	}
	for name, c := range map[string]struct {
		stop     func(*model.Allocation)
		versions []func(*model.Job)
		want     string
		failed   bool
	}{
		"drained":    {stop: stopped(reconcile.DescMigrating), want: "place j.g[0] v0 after a"},
		"lost":       {stop: stopped(reconcile.DescLost), want: "place j.g[0] v0 after a"},
		"failed":     {stop: stopped(reconcile.DescRescheduled), want: "place j.g[0] v0 after a", failed: true},
		"unhealthy":  {stop: stopped(reconcile.DescUnhealthy), want: "place j.g[0] v0 after a", failed: true},
		"preempted":  {stop: func(a *model.Allocation) { a.DesiredStatus = model.AllocDesiredStatusEvict }, want: "place j.g[0] v0 after a"},
		"not needed": {stop: stopped(reconcile.DescNotNeeded), want: "place j.g[0] v0"},
		"replaced": {stop: func(a *model.Allocation) {
			stopped(reconcile.DescMigrating)(a)
			a.NextAllocation = "b"
		}, want: "place j.g[0] v0"},
		"drained, and the job then changed to one that fits": {
			stop: stopped(reconcile.DescMigrating), versions: []func(*model.Job){env("less")}, want: "place j.g[0] v1 after a"},
		"failed, and the job was mended": {
			stop: stopped(reconcile.DescRescheduled), versions: []func(*model.Job){env("better")}, want: "place j.g[0] v1"},
		"drained, and the job was stopped in between": {stop: stopped(reconcile.DescMigrating), versions: []func(*model.Job){
			func(j *model.Job) { j.Stop = true }, func(j *model.Job) { j.Stop = false }}, want: "place j.g[0] v2"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench("service", 1)
			c.stop(b.alloc("a", 0, "n1"))
			for _, edit := range c.versions {
				b.version(edit)
			}
			r := reconcile.Service(b.Input)
			expect(t, r, c.want)
			if r.Place[0].Reschedule != c.failed {
				t.Errorf("that it replaces a failure is said: %t", r.Place[0].Reschedule)
			}
		})
	}
}

func TestWhatIsLostInAGroupThatReplacesNothingLostIsNotReplacedBesideCanaries(t *testing.T) {
	b := newBench(model.JobTypeService, 2)
	no := false
	tg := b.Job.TaskGroups[0]
	tg.Disconnect = &model.DisconnectStrategy{LostAfter: time.Hour, Replace: &no}
	tg.Update = &model.UpdateStrategy{MaxParallel: 1, Canary: 1, ProgressDeadline: time.Minute}
	b.nodes["n1"].Status = model.NodeStatusDown
	a := b.alloc("a", 0, "n1")
	a.DesiredStatus, a.DesiredDescription, a.ClientStatus = model.AllocDesiredStatusStop, reconcile.DescLost, model.AllocClientStatusLost
	b.alloc("b", 1, "n2")
	b.version(env("new"))
	r := reconcile.Service(b.Input)
	for _, p := range r.Place {
		if !p.Canary || p.Previous != nil {
			t.Errorf("placed is %+v", p)
		}
	}
	if len(r.Place) != 1 {
		t.Errorf("%d are placed, want the canary", len(r.Place))
	}
}
