// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverschema

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/schema"
)

// Finding is something that a driver says about a job. Path is the place in the
// block of the task (of the group, where Task is empty) in the words of a job
// file: config.mount[1].source, resources.cores.
type Finding struct {
	Group  string
	Task   string
	Driver string
	Path   string
	Text   string
}

// String names the place and says what is there.
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

// Report is what the drivers of a job say about it.
type Report struct {
	Problems []Finding // with which no driver starts the task
	Ignored  []Finding // what the driver will not act on
}

// Found is what is known about a driver: the bodies to check against, the newest
// first, and whether a cluster that has nodes has none that offers the driver.
type Found struct {
	Bodies []*Body
	Absent bool
}

// Check checks every task of a job against what is known about its driver. A
// config is right if one of the bodies accepts it: versions of a driver may live
// side by side. If none does, the newest says why. A driver of which nothing is
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

// maxFindings is where a job has been told enough about itself.
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
