// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nodeevals_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/nodeevals"
)

// view is a state of jobs, and of allocs that all are on one node.
type view struct {
	jobs   []*model.Job
	allocs []*model.Allocation
}

func (v view) SystemJobs() iter.Seq[*model.Job] {
	return slices.Values(slices.DeleteFunc(slices.Clone(v.jobs), func(j *model.Job) bool {
		return j.Type != model.JobTypeSystem && j.Type != model.JobTypeSysBatch
	}))
}
func (v view) AllocsByNode(string) []*model.Allocation { return v.allocs }

func (v view) JobByID(_, id string) *model.Job {
	for _, j := range v.jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

func TestAChangeOfANodeEvaluatesEachOfItsJobsAndTheSystemJobsOnce(t *testing.T) {
	v := view{
		jobs: []*model.Job{
			{ID: "here", Type: model.JobTypeService, Priority: 60}, {ID: "ended", Type: model.JobTypeBatch}, {ID: "elsewhere", Type: model.JobTypeService},
			{ID: "system", Type: model.JobTypeSystem}, {ID: "sysbatch", Type: model.JobTypeSysBatch},
			{ID: "stopped", Type: model.JobTypeSystem, Stop: true}, {ID: "template", Type: model.JobTypeSysBatch, ParameterizedJob: &model.ParameterizedJobConfig{}},
		},
		allocs: []*model.Allocation{
			{JobID: "here"}, {JobID: "here"}, {JobID: "system"}, {JobID: "purged"},
			{JobID: "ended", ClientStatus: model.AllocClientStatusComplete},
		},
	}
	now, n := time.Unix(50, 0), 0
	evals := nodeevals.Of(v, &model.Node{ID: "n", ModifyIndex: 7}, now, func() string { n++; return fmt.Sprint("e", n) })
	var got []string
	for _, e := range evals {
		got = append(got, e.ID+" "+e.JobID)
		if e.TriggeredBy != model.EvalTriggerNodeUpdate || e.NodeID != "n" || e.NodeModifyIndex != 7 || !e.ShouldEnqueue() || e.CreateTime != now.UnixNano() {
			t.Errorf("%+v", e)
		}
	}
	if want := []string{"e1 here", "e2 system", "e3 purged", "e4 sysbatch"}; !slices.Equal(got, want) {
		t.Errorf("evaluations %q, want %q", got, want)
	}
}

func TestTheReturnOfANodeEvaluatesJobsWhoseLostAllocsWereNotReplaced(t *testing.T) {
	lost := model.AllocClientStatusLost
	v := view{
		jobs:   []*model.Job{{ID: "held", Type: model.JobTypeService}, {ID: "replaced", Type: model.JobTypeService}},
		allocs: []*model.Allocation{{JobID: "held", ClientStatus: lost}, {JobID: "replaced", ClientStatus: lost, NextAllocation: "b"}},
	}
	evals := nodeevals.Of(v, &model.Node{ID: "n", Status: model.NodeStatusReady}, time.Unix(50, 0), func() string { return "e" })
	if len(evals) != 1 || evals[0].JobID != "held" {
		t.Errorf("evaluations %+v: a group with prevent_reschedule_on_lost would stay below its count", evals)
	}
}

func TestARegistrationNeedsEvaluationsIfTheNodeIsNewBackOrAnother(t *testing.T) {
	ready := &model.Node{Status: model.NodeStatusReady, ComputedClass: "a"}
	for name, c := range map[string]struct {
		before *model.Node
		want   bool
	}{
		"new":           {nil, true},
		"the same":      {&model.Node{Status: model.NodeStatusReady, ComputedClass: "a"}, false},
		"back":          {&model.Node{Status: model.NodeStatusDown, ComputedClass: "a"}, true},
		"another class": {&model.Node{Status: model.NodeStatusReady, ComputedClass: "b"}, true},
	} {
		if got := nodeevals.Needed(c.before, ready); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
