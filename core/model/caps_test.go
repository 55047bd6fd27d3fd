// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestTheTableOfLimitsIsThatOfTheModel(t *testing.T) {
	text, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range model.Caps {
		if row := fmt.Sprintf("| %s | %d |\n", c.What, c.Most); !strings.Contains(string(text), row) {
			t.Errorf("docs/limits.md lacks the row %q", row)
		}
	}
}

func TestAGroupHasNoMoreChecksThanItsNodeRuns(t *testing.T) {
	text, err := os.ReadFile("../../docs/limits.md")
	if row := fmt.Sprintf("| checks of all services of a group and its tasks | %d |\n", model.MaxChecks); err != nil || !strings.Contains(string(text), row) {
		t.Errorf("docs/limits.md lacks the row %q: %v", row, err)
	}
	services := func(prefix string, checks int) (out []*model.Service) {
		for i := 0; checks > 0; i++ {
			n := min(checks, 100)
			s := &model.Service{Name: fmt.Sprint(prefix, i), Provider: "nomad"}
			for range n {
				s.Checks = append(s.Checks, &model.ServiceCheck{Type: "http"})
			}
			out, checks = append(out, s), checks-n
		}
		return out
	}
	for checks, refused := range map[int]bool{model.MaxChecks: false, model.MaxChecks + 1: true} {
		task := &model.Task{Name: "t", Services: services("t", 200)}
		err := (&model.Job{ID: "j", TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{task}, Services: services("g", checks-200)}}}).Validate()
		if said := err != nil && strings.Contains(err.Error(), "have 501 checks; at most 500 are run"); said != refused {
			t.Errorf("%d checks: refused %v", checks, said)
		}
	}
}

func TestListsOfAJobAreCapped(t *testing.T) {
	job := func(edit func(*model.Job, *model.TaskGroup, *model.Task)) error {
		task := &model.Task{Name: "t"}
		group := &model.TaskGroup{Name: "g", Tasks: []*model.Task{task}}
		j := &model.Job{ID: "j", TaskGroups: []*model.TaskGroup{group}}
		edit(j, group, task)
		return j.Validate()
	}
	for want, edit := range map[string]func(*model.Job, *model.TaskGroup, *model.Task){
		"Job.TaskGroups has 2001 entries; at most 2000": func(j *model.Job, _ *model.TaskGroup, _ *model.Task) {
			j.TaskGroups = make([]*model.TaskGroup, 2001)
		},
		"Job.TaskGroups[0].Tasks has 501 entries": func(_ *model.Job, g *model.TaskGroup, _ *model.Task) { g.Tasks = make([]*model.Task, 501) },
		"Job.TaskGroups[0].Tasks[0].Constraints has 501 entries": func(_ *model.Job, _ *model.TaskGroup, t *model.Task) {
			t.Constraints = make([]*model.Constraint, 501)
		},
		"Job.Datacenters has 10001 entries": func(j *model.Job, _ *model.TaskGroup, _ *model.Task) { j.Datacenters = make([]string, 10_001) },
	} {
		if err := job(edit); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestHostileEveryNullInAJobIsRefused puts null in the place of each object of each
// list and map of a job, one by one.
func TestHostileEveryNullInAJobIsRefused(t *testing.T) {
	count := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); count++ {
		j, left := &model.Job{ID: "j"}, count
		place, found := dropNth(reflect.ValueOf(j), "Job", &left)
		if !found {
			break
		}
		if err := j.Validate(); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "is null") {
			t.Errorf("%s is null: %v", place, err)
		}
	}
	if count < 40 {
		t.Errorf("only %d places were tried", count)
	}
}
