// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

func TestWhatBecomesOfAnAllocDependsOnItsNodeAndOnThePatienceOfItsGroup(t *testing.T) {
	yes, no, hour := true, false, time.Hour
	type group = *model.TaskGroup
	hourly := func(tg group) { tg.Disconnect = &model.DisconnectStrategy{LostAfter: time.Hour} }
	endless := func(tg group) { tg.Disconnect = &model.DisconnectStrategy{Replace: &no} }
	place, lost := "place j.g[0] v0 after a", "stop a: "+reconcile.DescLost
	const ready, down, cut, gone = model.NodeStatusReady, model.NodeStatusDown, model.NodeStatusDisconnected, ""
	const running, pending, unknown = model.AllocClientStatusRunning, model.AllocClientStatusPending, model.AllocClientStatusUnknown
	for name, c := range map[string]struct {
		edit    func(group)
		node    string
		status  string
		silent  time.Duration // how long it has been unknown
		migrate bool
		want    []string
	}{
		"it runs, and its node is cut off":          {edit: hourly, node: cut, status: running, want: []string{"mark a unknown", place, "look again in 1h0m0s"}},
		"the same with the older field":             {edit: func(tg group) { tg.MaxClientDisconnect = &hour }, node: cut, status: running, want: []string{"mark a unknown", place, "look again in 1h0m0s"}},
		"the same, and replace is written":          {edit: func(tg group) { hourly(tg); tg.Disconnect.Replace = &yes }, node: cut, status: running, want: []string{"mark a unknown", place, "look again in 1h0m0s"}},
		"it has not run yet":                        {edit: hourly, node: cut, status: pending, want: []string{lost, place}},
		"it runs, and its node is down":             {edit: hourly, node: down, status: running, want: []string{lost, place}},
		"it runs, and its node is purged":           {edit: hourly, node: gone, status: running, want: []string{lost, place}},
		"its group has no patience":                 {edit: func(group) {}, node: cut, status: running, want: []string{lost, place}},
		"its group waits for ever":                  {edit: endless, node: down, status: running, want: []string{"mark a unknown"}},
		"still unknown":                             {edit: hourly, node: cut, status: unknown, silent: time.Minute, want: []string{place}},
		"unknown for too long":                      {edit: hourly, node: cut, status: unknown, silent: time.Hour, want: []string{lost, place}},
		"unknown for ever":                          {edit: endless, node: cut, status: unknown, silent: 99 * time.Hour},
		"its node is back and has not reported it":  {edit: hourly, node: ready, status: unknown, silent: time.Minute},
		"the same, in a group that waits for ever":  {edit: endless, node: ready, status: unknown, silent: time.Minute},
		"its group has lost its patience since":     {edit: func(group) {}, node: cut, status: unknown, silent: time.Minute, want: []string{lost, place}},
		"the same, and its node is back":            {edit: func(group) {}, node: ready, status: unknown, silent: time.Minute},
		"unknown, and to be moved away":             {edit: hourly, node: cut, status: unknown, silent: time.Minute, migrate: true, want: []string{lost, place}},
		"the same, in a group that waits for ever ": {edit: endless, node: cut, status: unknown, silent: time.Minute, migrate: true, want: []string{lost, place}},
		"the same, and its node is back ":           {edit: hourly, node: ready, status: unknown, silent: time.Minute, migrate: true, want: []string{"stop a: " + reconcile.DescMigrating, place}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench("service", 1)
			c.edit(b.Job.TaskGroups[0])
			if b.nodes["n1"].Status = c.node; c.node == gone {
				delete(b.nodes, "n1")
			}
			a := b.alloc("a", 0, "n1")
			a.ClientStatus = c.status
			if c.status == unknown {
				a.AllocStates = []*model.AllocState{{Field: "ClientStatus", Value: unknown, Time: now.Add(-c.silent)}}
			}
			if c.migrate {
				a.DesiredTransition.Migrate = &yes
			}
			expect(t, reconcile.Service(b.Input), c.want...)
		})
	}
}

// A canary is replaced while it is out of reach, as others are, and comes back as a canary.
func TestACanaryThatIsOutOfReachIsReplacedUntilItsNodeIsBack(t *testing.T) {
	b, canary := canarying()
	for _, j := range b.jobs {
		j.TaskGroups[0].Disconnect = &model.DisconnectStrategy{LostAfter: time.Hour}
	}
	b.nodes["n2"].Status = model.NodeStatusDisconnected
	expect(t, reconcile.Service(b.Input), "mark canary unknown", "place j.g[0] v1 after canary", "look again in 1h0m0s")
	canary.ClientStatus = model.AllocClientStatusUnknown
	canary.AllocStates = []*model.AllocState{{Field: "ClientStatus", Value: model.AllocClientStatusUnknown, Time: now}}
	r := reconcile.Service(b.Input)
	expect(t, r, "place j.g[0] v1 after canary")
	if got := r.Updates["g"].Ignore; got != 2 {
		t.Errorf("%d allocs are left as they are, not 2", got)
	}
	b.nodes["n2"].Status = model.NodeStatusReady // it has not reported the canary yet
	expect(t, reconcile.Service(b.Input))
}

func TestWhatIsNotNeededAndWillNotBeHeardOfIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*bench)
		want string
	}{
		"its node is in reach": {func(*bench) {}, ""},
		"its node is down":     {func(b *bench) { b.nodes["n2"].Status = model.NodeStatusDown }, model.AllocClientStatusLost},
		"its node is purged":   {func(b *bench) { delete(b.nodes, "n2") }, model.AllocClientStatusLost},
	} {
		b := newBench("service", 0)
		b.alloc("b", 0, "n2").TaskGroup = "old"
		c.edit(b)
		r := reconcile.Service(b.Input)
		expect(t, r, "stop b: "+reconcile.DescNotNeeded)
		if got := r.Stop[0].ClientStatus; got != c.want {
			t.Errorf("%s: its client status becomes %q, not %q", name, got, c.want)
		}
	}
}

// An alloc that should have ended on a node which is gone has nobody to report its end. One
// whose end is known is left alone.
func TestOnlyAnEndThatNobodyWillReportIsRecordedAsLost(t *testing.T) {
	b := newBench("service", 0)
	a := b.alloc("a", 0, "n2")
	a.DesiredStatus, a.DesiredDescription = model.AllocDesiredStatusStop, reconcile.DescUpdating
	delete(b.nodes, "n2")
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescUpdating)
	a.ClientStatus = model.AllocClientStatusComplete
	expect(t, reconcile.Service(b.Input))
	a.DesiredStatus = model.AllocDesiredStatusRun
	expect(t, reconcile.Service(b.Input))
}
