// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverschema

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/schema"
)

// Finding is a problem of a job with a driver. Path is the place in the block of the
// task (or of the group, if Task is empty) in the words of a job file:
// config.mount[1].source, resources.cores.
type Finding struct {
	Group  string
	Task   string
	Driver string
	Path   string
	Text   string
}

// String returns the place and the text.
func (f Finding) String() string {
	return f.Where() + " -> " + f.Path + ": " + f.Text
}

// Where names the task or the group.
func (f Finding) Where() string {
	where := fmt.Sprintf("task group %q", f.Group)
	if f.Task != "" {
		where += fmt.Sprintf(" -> task %q", f.Task)
	}
	return where
}

// Report contains the findings about a job.
type Report struct {
	Problems []Finding // with these the driver does not start the task
	Ignored  []Finding // features that the driver ignores
}

// Found is what is known about a driver: the bodies to check against, newest first,
// and whether no node of the cluster has the driver.
type Found struct {
	Bodies []*Body
	Absent bool
}

// Check checks every task of a job against what is known about its driver. A config is
// valid if one of the bodies accepts it, because versions of a driver may coexist.
// Otherwise the problems are those of the newest body. A driver of which nothing is
// known is not checked.
func Check(job *model.Job, find func(driver string) Found) Report {
	r := &report{seen: map[string]Found{}, find: find}
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			r.task(g, t)
		}
	}
	return r.Report
}

type report struct {
	Report
	find func(string) Found
	seen map[string]Found
}

// maxFindings limits the number of findings about one job.
const maxFindings = 1000

func (r *report) task(g *model.TaskGroup, t *model.Task) {
	if len(r.Problems) >= maxFindings || len(r.Ignored) >= maxFindings {
		return
	}
	found, ok := r.seen[t.Driver]
	if !ok {
		found = r.find(t.Driver)
		r.seen[t.Driver] = found
	}
	at := Finding{Group: g.Name, Task: t.Name, Driver: t.Driver}
	if found.Absent {
		at.Path, at.Text = "driver", fmt.Sprintf("no node of the cluster offers driver %q", t.Driver)
		r.Ignored = append(r.Ignored, at)
	}
	var first schema.Problems
	for i, b := range found.Bodies {
		problems := schema.ProblemsOf(b.Task.Validate(t.Config))
		if len(problems) == 0 {
			r.Ignored = append(r.Ignored, b.ignored(g, t)...)
			r.Problems = append(r.Problems, b.opensNetwork(g, t)...)
			return
		}
		if i == 0 {
			first = problems
		}
	}
	for _, p := range first {
		at.Path, at.Text = p.Path, p.Text
		if p.Description != "" && !strings.Contains(p.Text, p.Description) {
			at.Text += " (" + p.Description + ")"
		}
		r.Problems = append(r.Problems, at)
	}
}
