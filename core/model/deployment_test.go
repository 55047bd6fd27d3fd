// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
)

func TestAGroupIsDoneWhenItsCountIsHealthyAndItsCanariesArePromoted(t *testing.T) {
	for name, c := range map[string]struct {
		group model.DeploymentState
		done  bool
	}{
		"nothing healthy":        {model.DeploymentState{DesiredTotal: 1}, false},
		"all healthy":            {model.DeploymentState{DesiredTotal: 1, HealthyAllocs: 1}, true},
		"no count":               {model.DeploymentState{}, true},
		"canaries wait":          {model.DeploymentState{DesiredTotal: 1, DesiredCanaries: 1, HealthyAllocs: 2}, false},
		"promoted":               {model.DeploymentState{DesiredTotal: 2, DesiredCanaries: 1, HealthyAllocs: 2, Promoted: true}, true},
		"promoted, not full yet": {model.DeploymentState{DesiredTotal: 2, DesiredCanaries: 1, HealthyAllocs: 1, Promoted: true}, false},
		// The promotion has stopped the second canary: it must not be waited for.
		"more canaries than its count": {model.DeploymentState{DesiredTotal: 1, DesiredCanaries: 2, HealthyAllocs: 1, Promoted: true}, true},
	} {
		if got := c.group.Done(); got != c.done {
			t.Errorf("%s: done %t, want %t", name, got, c.done)
		}
		d := &model.Deployment{TaskGroups: map[string]*model.DeploymentState{"g": &c.group, "done": {}}}
		if got := d.Done(); got != c.done {
			t.Errorf("%s: the deployment is done: %t, want %t", name, got, c.done)
		}
	}
}

func TestADeploymentRevertsToTheNewestStableVersionBeforeItOrSaysWhyNot(t *testing.T) {
	version := func(n uint64, meta string, stable bool) *model.Job {
		return &model.Job{ID: "web", CreateIndex: 7, Version: n, Stable: stable, Meta: map[string]string{"v": meta}}
	}
	stopped := version(4, "d", false)
	stopped.Stop = true
	former := version(3, "a", true)
	former.CreateIndex = 1
	for name, c := range map[string]struct {
		versions []*model.Job // newest first; the deployment is of version 3
		to       uint64
		why      string
	}{
		"the newest stable one":       {[]*model.Job{version(3, "c", false), version(2, "b", true), version(1, "a", true)}, 2, "rolling back to job version 2"},
		"unstable ones are skipped":   {[]*model.Job{version(3, "c", false), version(2, "b", false), version(1, "a", true)}, 1, "rolling back to job version 1"},
		"none is stable":              {[]*model.Job{version(3, "c", false), version(2, "b", false)}, 0, "no stable job version to auto revert to"},
		"its own version is no other": {[]*model.Job{version(3, "c", true)}, 0, "no stable job version to auto revert to"},
		"the same specification":      {[]*model.Job{version(3, "b", false), version(2, "b", true), version(1, "a", true)}, 0, "not rolling back to job version 2 as current job has same specification"},
		"a newer version":             {[]*model.Job{version(4, "d", false), version(3, "c", false), version(2, "b", true)}, 0, "not rolling back as the job has a newer version 4"},
		"stopped":                     {[]*model.Job{stopped, version(3, "c", false), version(2, "b", true)}, 0, "not rolling back as the job is stopped"},
		"purged":                      {nil, 0, "not rolling back as the job was purged"},
		"purged, and another came":    {[]*model.Job{former}, 0, "not rolling back as the job was purged"},
	} {
		to, why := (&model.Deployment{JobVersion: 3, JobCreateIndex: 7}).Rollback(c.versions)
		if why != c.why || (to == nil) != (c.to == 0) || to != nil && to.Version != c.to {
			t.Errorf("%s: %+v, %q", name, to, why)
		}
	}
}

func TestTheCanariesOfASystemJobAreAPercentage(t *testing.T) {
	for _, c := range []struct {
		typ     string
		canary  int
		refused bool
	}{{model.JobTypeSystem, 100, false}, {model.JobTypeSystem, 101, true}, {model.JobTypeService, 101, false}} {
		j := &model.Job{ID: "web", Name: "web", Type: c.typ, TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Update: &model.UpdateStrategy{MaxParallel: 1, Canary: c.canary}}}}
		if got := strings.Contains(fmt.Sprint(j.Validate()), "is over 100: it is the percentage of its nodes"); got != c.refused {
			t.Errorf("canary = %d of a %s job: refused %t", c.canary, c.typ, got)
		}
	}
}
