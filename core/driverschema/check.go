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
	Warnings []Finding // such as features that the driver ignores
	Asks     []Ask
}

// Ask is a task whose config fits the schema of its driver, and that the driver's own code
// must check, too.
type Ask struct {
	Group, Task, Driver string
	Config              map[string]any // as in the job file
	// Hashes are the versions of the driver that are to be asked. Sure is set if they are all
	// that accept the config: otherwise a version without rules would start the task.
	Hashes []string
	Sure   bool
}

// At returns a finding about the task.
func (a Ask) At(path, text string) Finding {
	return Finding{Group: a.Group, Task: a.Task, Driver: a.Driver, Path: path, Text: text}
}

// Found is what is known about a driver: the bodies to check against, newest first,
// and whether no node of the cluster has the driver.
type Found struct {
	Bodies []*Body
	Absent bool
}

// Check checks every task of a job against what is known about its driver. A config is
// valid if one of the bodies accepts it, because versions of a driver may coexist.
// Otherwise it returns the problems with the newest body. The config of an unknown driver
// is not checked.
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
	if len(r.Problems) >= maxFindings || len(r.Warnings) >= maxFindings {
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
		r.Warnings = append(r.Warnings, at)
	}
	var first schema.Problems
	var accepting []*Body
	for i, b := range found.Bodies {
		problems := schema.ProblemsOf(b.Task.Validate(t.Config))
		if len(problems) == 0 {
			accepting = append(accepting, b)
		}
		if i == 0 {
			first = problems
		}
	}
	if len(accepting) > 0 {
		r.Warnings = append(r.Warnings, accepting[0].ignored(g, t)...)
		r.networks(g, t, accepting)
		r.ask(g, t, accepting)
		return
	}
	for _, p := range first {
		at.Path, at.Text = p.Path, p.Text
		if p.Description != "" && !strings.Contains(p.Text, p.Description) {
			at.Text += " (" + p.Description + ")"
		}
		r.Problems = append(r.Problems, at)
	}
}

// networks notes the networks that no version of the driver can put the task into. Where
// some can, the scheduler chooses their nodes.
func (r *report) networks(g *model.TaskGroup, t *model.Task, accepting []*Body) {
	for _, b := range accepting {
		if len(b.networks(g, t)) == 0 {
			return
		}
	}
	r.Problems = append(r.Problems, accepting[0].networks(g, t)...)
}

// ask notes a task about which versions of its driver can be asked.
func (r *report) ask(g *model.TaskGroup, t *model.Task, accepting []*Body) {
	a := Ask{Group: g.Name, Task: t.Name, Driver: t.Driver, Config: t.Config, Sure: true}
	for _, b := range accepting {
		if b.Capabilities.Validates && b.hash != "" {
			a.Hashes = append(a.Hashes, b.hash)
		} else {
			a.Sure = false
		}
	}
	if len(a.Hashes) > 0 {
		r.Asks = append(r.Asks, a)
	}
}
