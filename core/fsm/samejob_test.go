// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

// A plan announces a new version if model.SpecChanged says so; a registration must
// make one in the same cases.
func TestARegistrationMakesANewVersionExactlyWhenAPlanAnnouncesIt(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(*model.Job)
		changed bool
	}{
		"the same":                    {func(*model.Job) {}, false},
		"an empty map for none":       {func(j *model.Job) { j.TaskGroups[0].Meta = map[string]string{} }, false},
		"an empty list for none":      {func(j *model.Job) { j.TaskGroups[0].Constraints = []*model.Constraint{} }, false},
		"a number that JSON has read": {func(j *model.Job) { j.TaskGroups[0].Tasks[0].Config["n"] = float64(2) }, false},
		"another token":               {func(j *model.Job) { j.NomadTokenID = "token" }, false},
		"another number":              {func(j *model.Job) { j.TaskGroups[0].Tasks[0].Config["n"] = 3 }, true},
		"another count":               {func(j *model.Job) { j.TaskGroups[0].Count++ }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFSM()
			first, second := testJob("web", 1), testJob("web", 1)
			first.TaskGroups[0].Tasks[0].Config["n"], second.TaskGroups[0].Tasks[0].Config["n"] = 2, 2
			c.edit(second)
			mustApply(t, f, &fsm.UpsertJob{Job: first})
			cur := f.Store().View().JobByID(first.Namespace, first.ID)
			if announced := model.SpecChanged(cur, second); announced != c.changed {
				t.Errorf("a plan says changed: %t, want %t", announced, c.changed)
			}
			mustApply(t, f, &fsm.UpsertJob{Job: second})
			if v := f.Store().View().JobByID(first.Namespace, first.ID).Version; (v == 1) != c.changed {
				t.Errorf("the registration made version %d; changed: %t", v, c.changed)
			}
		})
	}
}
