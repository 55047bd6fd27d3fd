// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"errors"
	"reflect"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// Note is an error in a job that another component found, such as the schema of a
// task's driver. Path is the place in the block of the task (or of the group, if Task
// is empty), such as config.mount[1].source.
type Note struct {
	Group, Task, Path string
	Summary, Detail   string
}

// Where returns the position in the job file of the element that a path names, or of the
// nearest enclosing one, such as web.nomad.hcl:12,9-13; "" for a draft that was not parsed
// from a file.
func (j *Draft) Where(group, task, path string) string {
	rng, ok := j.rangeOf(group, task, path)
	if !ok {
		return ""
	}
	return rng.String()
}

// Refuse returns the notes as an error of the same form as errors in the file, in the
// order of the file.
func (j *Draft) Refuse(notes []Note) error {
	var diags hcl.Diagnostics
	var plain []error
	for _, n := range notes {
		rng, ok := j.rangeOf(n.Group, n.Task, n.Path)
		if !ok {
			plain = append(plain, errors.New(n.Detail))
			continue
		}
		diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: n.Summary, Detail: n.Detail, Subject: &rng})
	}
	if len(diags) == 0 {
		return errors.Join(plain...)
	}
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int { return a.Subject.Start.Byte - b.Subject.Start.Byte })
	return &ParseError{diags: diags, src: j.origin.files}
}

func (j *Draft) rangeOf(group, task, path string) (hcl.Range, bool) {
	if j.origin == nil {
		return hcl.Range{}, false
	}
	g, t := j.indexes(group, task)
	if j.origin.json != nil {
		holder := reflect.TypeFor[Task]()
		if t < 0 {
			holder = reflect.TypeFor[TaskGroup]()
		}
		if g < 0 {
			return j.origin.json.StartRange(), true
		}
		return j.origin.placeOfTask(g, t).findField(holder, "."+path), true
	}
	var b *block
	switch {
	case t >= 0:
		b = j.TaskGroups[g].Tasks[t].at
	case g >= 0:
		b = j.TaskGroups[g].at
	}
	if b == nil {
		return hcl.Range{Filename: j.origin.filename, Start: hcl.InitialPos, End: hcl.InitialPos}, true
	}
	p := placeOfBlock(b)
	p.labels = nil // only labels of the task itself
	return p.find("." + path), true
}

// indexes finds a task by name. An index is -1 if it was not found or not requested.
func (j *Draft) indexes(group, task string) (g, t int) {
	for g, tg := range j.TaskGroups {
		if tg.Name == nil || *tg.Name != group {
			continue
		}
		for t, tk := range tg.Tasks {
			if tk.Name == task && task != "" {
				return g, t
			}
		}
		return g, -1
	}
	return -1, -1
}

// remember stores the block of a group or task for the messages of Refuse.
func remember(b *block, v reflect.Value) {
	if !v.CanAddr() {
		return
	}
	switch x := v.Addr().Interface().(type) {
	case *Task:
		x.at = b
	case *TaskGroup:
		x.at = b
	}
}
