// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan_test

import (
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/state"
)

// TestAPreemptionIsCheckedOnTheNewestState plans that alloc "new" of the job "high" takes the
// place of "old" of the job "low", on a node for one of them; then something happens.
func TestAPreemptionIsCheckedOnTheNewestState(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(s *stale)
		placed  bool
		old     string // its desired status
		evals   int
	}{
		"nothing":                        {func(*stale) {}, true, "evict", 1},
		"the other job became important": {func(s *stale) { s.important("low", 41) }, false, "run", 0},
		"the other job was purged":       {func(s *stale) { s.apply(&fsm.DeregisterJob{Namespace: "default", ID: "low", Purge: true}) }, false, "run", 0},
		"the other alloc has completed":  {func(s *stale) { s.report(s.store.View().AllocByID("old"), "complete") }, true, "run", 0},
		"the job has changed":            {func(s *stale) { s.important("high", 60) }, false, "run", 0},
		"the node drains": {func(s *stale) {
			s.apply(&fsm.UpdateNodeDrain{NodeID: "n0", Strategy: &model.DrainStrategy{}})
		}, false, "run", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := preempting(t, fsm.Level)
			p := s.plan()
			c.happens(s)
			s.commit(p)
			s.wants(c.placed, c.old, c.evals)
			s.commit(p) // again: it is stored already
			s.wants(c.placed, c.old, c.evals)
		})
	}
}

func TestNothingIsPreemptedWhileAServerDoesNotKnowIt(t *testing.T) {
	s := preempting(t, 0)
	p := s.plan()
	r := s.verify(p)
	if len(r.Rejections) == 0 || r.Rejections[0].Reason != "a server of the cluster is too old to know preemption" || !r.IsNoOp() {
		t.Errorf("%+v", r)
	}
}

// preempting is a node that the alloc "old" fills, at a capability level.
func preempting(t *testing.T, level int) *stale {
	s := &stale{t: t, store: state.New()}
	s.fsm = fsm.New(s.store, hclog.NewNullLogger())
	s.apply(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	if level > 0 {
		s.apply(&fsm.RaiseLevel{Level: level})
	}
	s.node(0, 100)
	s.important("low", 20)
	s.important("high", 50)
	s.apply(&fsm.ApplyPlan{Plan: &model.Plan{
		EvalID: "e1", Namespace: "default", JobID: "low", SnapshotIndex: s.store.View().Index(), Place: []*model.Allocation{alloc100("old", "low")},
	}, VerifiedIndex: s.store.View().Index(), UpdatedAt: 1})
	return s
}

func (s *stale) important(id string, priority int) {
	s.apply(&fsm.UpsertJob{Job: &model.Job{
		ID: id, Name: id, Namespace: "default", Type: "service", Priority: priority, NodePool: "default", Datacenters: []string{"*"},
		TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec"}}}},
	}})
}

func alloc100(id, job string) *model.Allocation {
	return &model.Allocation{
		ID: id, Namespace: "default", Name: model.AllocName(job, "g", 0), JobID: job, TaskGroup: "g", NodeID: "n0",
		DesiredStatus: "run", ClientStatus: "pending",
		AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"t": {Cpu: model.AllocatedCpuResources{CpuShares: 100}}}},
	}
}

func (s *stale) plan() *model.Plan {
	return &model.Plan{
		EvalID: "e2", Namespace: "default", JobID: "high", SnapshotIndex: s.store.View().Index(), Place: []*model.Allocation{alloc100("new", "high")},
		Change:          []model.AllocChange{{Kind: model.AllocStop, AllocID: "old", PreemptedBy: "new"}},
		PreemptionEvals: []*model.Evaluation{{ID: "e3", Namespace: "default", JobID: "low", Type: "service", TriggeredBy: "preemption", Status: "pending"}},
	}
}

func (s *stale) verify(p *model.Plan) *model.PlanResult { return plan.Verify(s.store.View(), p) }

// commit verifies a plan and applies what is accepted.
func (s *stale) commit(p *model.Plan) {
	if r := s.verify(p); !r.IsNoOp() {
		s.apply(fsm.NewApplyPlan(p, r, s.store.View().Index(), 2))
	}
}

func (s *stale) wants(placed bool, old string, evals int) {
	s.t.Helper()
	v := s.store.View()
	if got := v.AllocByID("new") != nil; got != placed {
		s.t.Errorf("placed %v, want %v", got, placed)
	}
	a := v.AllocByID("old")
	if a.DesiredStatus != old || (old == "evict") != (a.PreemptedByAllocation == "new") {
		s.t.Errorf("the other alloc shall %s, by %q; want %s", a.DesiredStatus, a.PreemptedByAllocation, old)
	}
	n := 0
	for range v.Evals() {
		n++
	}
	if n != evals {
		s.t.Errorf("%d evaluations, want %d", n, evals)
	}
}
