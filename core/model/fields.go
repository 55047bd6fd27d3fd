// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Values of Field.By for fields on which no package acts and which need no warning.
const (
	ReadBack = "(read back)" // data for people and other programs, which the API returns
	Servers  = "(servers)"   // set by servers; a client's value is ignored
	Around   = "(around)"    // covered by the warning of the enclosing block
)

// Field says how one field of a job is used. JobFields is the table of all of them; a
// test in internal/repotest checks it against the types and the code.
type Field struct {
	// Name is the field, as "Type.Field".
	Name string
	// By names the code that acts on the field: a package such as "core/agent/alloc",
	// a function of this package such as "core/model.IsEmpty", ReadBack, Servers or
	// Around. It is empty if no code does; then Warn or Refuse is set, and fields
	// below it need no rows.
	By string
	// Warn names the unsupported feature, in the words of a job file; %v in it stands
	// for the value. Jobs that use it are accepted with a warning.
	Warn string
	// Refuse says why a job that uses the feature is rejected, and what to do. It
	// requires Warn.
	Refuse string
	// When is a condition for Warn and Refuse; nil means whenever the field is set.
	When func(Place) bool
}

// Place is a field of a job that is set, with the group, task and service around it.
type Place struct {
	Job     *Job
	Group   *TaskGroup // nil for a field of the job
	Task    *Task      // nil for a field of the group
	Service *Service   // nil for a field that is not of a service
	Of      any        // pointer to the struct that has the field
	Value   any        // value of the field; pointers are dereferenced
}

// NotActedOn returns a warning for each feature that the job uses and that Drover does
// not support yet, in the order of the job.
func (j *Job) NotActedOn() []string {
	warnings, _ := j.unsupported()
	return warnings
}

// validateFields rejects unsupported features that must not be ignored.
func (j *Job) validateFields(p *ValidationError) {
	_, refusals := j.unsupported()
	*p = append(*p, refusals...)
}

// unsupported visits the fields that are set.
func (j *Job) unsupported() (warnings []string, refusals ValidationError) {
	w := &fieldWalk{rows: fieldRows, places: map[string][]string{}}
	w.structure(reflect.ValueOf(j).Elem(), Place{Job: j}, nil)
	for _, what := range w.order {
		warnings = append(warnings, "not acted on yet: "+what+inPlaces(w.places[what]))
	}
	return warnings, w.refusals
}

// fieldRows is JobFields by name.
var fieldRows = func() map[string]*Field {
	out := map[string]*Field{}
	rows := JobFields()
	for i := range rows {
		out[rows[i].Name] = &rows[i]
	}
	return out
}()

// fieldWalk collects unsupported features.
type fieldWalk struct {
	rows     map[string]*Field
	order    []string            // features, each once
	places   map[string][]string // by feature
	refusals ValidationError
}

// structure visits the fields of a struct that have rows. names are the names of the
// enclosing parts of the job.
func (w *fieldWalk) structure(v reflect.Value, at Place, names []string) {
	name := ""
	switch x := v.Addr().Interface().(type) {
	case *TaskGroup:
		at.Group, name = x, x.Name
	case *Task:
		at.Task, name = x, x.Name
	case *VolumeRequest:
		name = x.Name
	case *Service:
		at.Service = x
	}
	if name != "" {
		names = append(names[:len(names):len(names)], name)
	}
	at.Of = v.Addr().Interface()
	for i := range v.NumField() {
		row := w.rows[v.Type().Name()+"."+v.Type().Field(i).Name]
		f := v.Field(i)
		for f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		if row == nil || unset(f) {
			continue
		}
		at.Value = f.Interface()
		w.say(row, at, names)
		if row.By != "" {
			w.below(f, at, names)
		}
	}
}

// unset reports whether a value is empty.
func unset(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// below visits the structs that a field holds.
func (w *fieldWalk) below(v reflect.Value, at Place, names []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			w.below(v.Elem(), at, names)
		}
	case reflect.Struct:
		if v.CanAddr() {
			w.structure(v, at, names)
		}
	case reflect.Slice:
		for i := range v.Len() {
			w.below(v.Index(i), at, names)
		}
	case reflect.Map:
		keys := v.MapKeys()
		if v.Type().Elem().Kind() != reflect.Pointer {
			return // plain values
		}
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			w.below(v.MapIndex(k), at, names)
		}
	}
}

// say records the warning or refusal of a row for a field.
func (w *fieldWalk) say(row *Field, at Place, names []string) {
	if row.Warn == "" || row.When != nil && !row.When(at) {
		return
	}
	what, place := row.Warn, strings.Join(names, "/")
	if strings.Contains(what, "%v") {
		what = fmt.Sprintf(what, at.Value)
	}
	if row.Refuse != "" {
		w.refusals = append(w.refusals, errors.New(what+inPlaces([]string{place})+" is not possible yet: "+row.Refuse))
		return
	}
	if w.places[what] == nil {
		w.order = append(w.order, what)
	}
	w.places[what] = append(w.places[what], elements(at.Value, place)...)
}

// elements returns the places of the elements of a list: with their names if they
// have names, such as web/http and web/admin for services.
func elements(value any, place string) []string {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Slice {
		return []string{place}
	}
	var out []string
	for i := range v.Len() {
		e := reflect.Indirect(v.Index(i))
		if e.Kind() != reflect.Struct || !e.FieldByName("Name").IsValid() {
			return []string{place}
		}
		out = append(out, place+"/"+e.FieldByName("Name").String())
	}
	return out
}

// maxPlaces limits the number of places that one warning names.
const maxPlaces = 5

// inPlaces returns where something is used, such as " of web/server, web/proxy".
func inPlaces(places []string) string {
	places = slices.Compact(slices.Clone(places))
	if len(places) == 1 && places[0] == "" {
		return ""
	}
	if more := len(places) - maxPlaces; more > 0 {
		places = append(places[:maxPlaces], fmt.Sprintf("and %d more", more))
	}
	return " of " + strings.Join(places, ", ")
}
