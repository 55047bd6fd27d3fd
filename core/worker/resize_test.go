// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker_test

import (
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// resize stores a version of a job in which each alloc takes so much cpu, in place.
func (l *leader) resize(id string, cpu int) *model.Evaluation {
	j := l.store.View().JobByID("default", id).Copy()
	j.TaskGroups[0].Update = &model.UpdateStrategy{Resources: model.UpdateInPlace}
	j.TaskGroups[0].Tasks[0].Resources.CPU = cpu
	e := &model.Evaluation{ID: l.ids.NewID(), Namespace: "default", JobID: id, Type: "batch", Priority: 50, Status: "pending", TriggeredBy: "job-register"}
	l.propose(&fsm.UpsertJob{Job: j, Eval: e})
	return e
}

// resizing is a leader with a node that changes resources in place.
func resizing(t *testing.T, cpu int64) *leader {
	l := newLeader(t, 1)
	l.node("n1", cpu)
	n := l.store.View().NodeByID("n1").Copy()
	n.Attributes = map[string]string{"driver.raw_exec": "1", model.UpdatesResourcesAttribute("raw_exec"): "true"}
	n.ComputedClass = n.ComputeClass()
	l.propose(&fsm.RegisterNode{Node: n})
	return l
}

func TestAnAllocThatShrinksWakesWhatWaitsForRoom(t *testing.T) {
	l := resizing(t, 250)
	l.register("large", 2)
	l.eventually("two allocs", func(v *state.View) bool { return len(v.AllocsByJob("default", "large")) == 2 })
	e := l.register("waits", 1)
	l.eventually("a blocked evaluation", func(v *state.View) bool { return v.EvalByID(e.ID).BlockedEval != "" })
	l.resize("large", 50)
	l.eventually("the alloc that waited", func(v *state.View) bool { return len(v.AllocsByJob("default", "waits")) == 1 })
	cpu, _, _ := l.store.View().NodeUsed("n1")
	if cpu != 200 || len(l.store.View().AllocsByJob("default", "large")) != 2 {
		t.Errorf("%d MHz are used, want 200 by the same allocs", cpu)
	}
}
