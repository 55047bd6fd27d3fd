// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

func TestJobsGroupsAndEvaluationsThatWaitNeedTheLevelAtWhichServersKnowIt(t *testing.T) {
	on := []*model.Dependency{{Name: "x", Condition: model.DependencyStarted}}
	job, group := testJob("a", 1), testJob("b", 1)
	job.DependsOn, group.TaskGroups[0].DependsOn = on, on
	held := &model.Evaluation{ID: "e", Held: map[string]*model.Hold{"web": {Allocs: 1}}}
	for want, list := range map[int][]fsm.Command{
		1: {&fsm.UpsertJob{Job: testJob("c", 1)}, &fsm.UpsertEvals{Evals: []*model.Evaluation{{ID: "e"}}}},
		2: {&fsm.UpsertJob{Job: job}, &fsm.UpsertJob{Job: group}, &fsm.ScaleJob{Register: &fsm.UpsertJob{Job: job}}, &fsm.UpsertEvals{Evals: []*model.Evaluation{held}}},
	} {
		for _, c := range list {
			if got := fsm.Needs(encode(t, c)); got != want {
				t.Errorf("%T needs level %d, want %d", c, got, want)
			}
		}
	}
}

func TestTwoRegistrationsAtATimeMakeNoCycle(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	mustApply(t, f, &fsm.RaiseLevel{Level: 2})
	with := func(id, on string) *model.Job {
		j := testJob(id, 1)
		j.DependsOn = []*model.Dependency{{Name: on, Condition: model.DependencyStarted}}
		return j
	}
	mustApply(t, f, &fsm.UpsertJob{Job: with("a", "b")})
	_, answer := apply(t, f, &fsm.UpsertJob{Job: with("b", "a")})
	if !refused(answer) || !strings.Contains(fmt.Sprint(answer), "b -> a -> b") {
		t.Errorf("%v", answer)
	}
	mustApply(t, f, &fsm.DeregisterJob{Namespace: "default", ID: "a", SubmitTime: 1})
	mustApply(t, f, &fsm.UpsertJob{Job: with("b", "a")})
}
