// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strconv"

	"github.com/drover-project/drover/sdk/errdefs"
)

// DiffType says how a part of a job changed.
type DiffType string

// Types of changes. None is used for fields and tasks shown for context.
const (
	DiffTypeNone    DiffType = "None"
	DiffTypeAdded   DiffType = "Added"
	DiffTypeDeleted DiffType = "Deleted"
	DiffTypeEdited  DiffType = "Edited"
)

// JobDiff is the difference of two versions of a job.
type JobDiff struct {
	Type       DiffType
	ID         string
	Fields     []*FieldDiff
	Objects    []*ObjectDiff
	TaskGroups []*TaskGroupDiff
}

// TaskGroupDiff is the difference of a group. Updates counts what the
// scheduler would do with its allocs; the scheduler fills it in.
type TaskGroupDiff struct {
	Type    DiffType
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
	Tasks   []*TaskDiff
	Updates map[string]uint64
}

// TaskDiff is the difference of a task.
type TaskDiff struct {
	Type        DiffType
	Name        string
	Fields      []*FieldDiff
	Objects     []*ObjectDiff
	Annotations []string
}

// ObjectDiff is the difference of a block.
type ObjectDiff struct {
	Type    DiffType
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
}

// FieldDiff is the difference of one value.
type FieldDiff struct {
	Type        DiffType
	Name        string
	Old, New    string
	Annotations []string
}

// DiffJobs compares two versions of a job. If one is nil, everything is added or
// deleted.
func DiffJobs(older, newer *Job) (*JobDiff, error) {
	if older != nil && newer != nil && older.ID != newer.ID {
		return nil, errdefs.InvalidArgumentf("can not diff jobs with different IDs: %q and %q", older.ID, newer.ID)
	}
	out := &JobDiff{Type: typeOf(older != nil, newer != nil)}
	a, b := orEmpty(older), orEmpty(newer)
	if out.ID = b.ID; newer == nil {
		out.ID = a.ID
	}
	d := differ{older != nil, newer != nil, false}
	out.Fields, out.Objects = d.fields(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
	for _, pair := range pairUp(a.TaskGroups, b.TaskGroups, func(g *TaskGroup) string { return g.Name }) {
		if g := diffGroups(pair[0], pair[1]); g != nil {
			out.TaskGroups = append(out.TaskGroups, g)
		}
	}
	if out.Type == DiffTypeEdited && len(out.Fields)+len(out.Objects)+len(out.TaskGroups) == 0 {
		out.Type = DiffTypeNone
	}
	return out, nil
}

func diffGroups(older, newer *TaskGroup) *TaskGroupDiff {
	out := &TaskGroupDiff{Type: typeOf(older != nil, newer != nil)}
	a, b := orEmpty(older), orEmpty(newer)
	if out.Name = b.Name; newer == nil {
		out.Name = a.Name
	}
	d := differ{older != nil, newer != nil, false}
	out.Fields, out.Objects = d.fields(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
	changed := len(out.Fields)+len(out.Objects) > 0
	for _, pair := range pairUp(a.Tasks, b.Tasks, func(t *Task) string { return t.Name }) {
		t := diffTasks(pair[0], pair[1])
		out.Tasks = append(out.Tasks, t)
		changed = changed || t.Type != DiffTypeNone
	}
	if out.Type == DiffTypeEdited && !changed {
		return nil
	}
	if a.Scaling != nil && b.Scaling != nil && !hasObject(out.Objects, "Scaling") {
		// Clients of the reference expect the scaling block of every edited group,
		// since the fields that servers keep in it differ between versions.
		out.Objects = append(out.Objects, &ObjectDiff{Type: DiffTypeEdited, Name: "Scaling"})
	}
	return out
}

func hasObject(objects []*ObjectDiff, name string) bool {
	return slices.ContainsFunc(objects, func(o *ObjectDiff) bool { return o.Name == name })
}

// diffTasks compares two versions of a task. One that did not change is shown, too, where its
// group changed.
func diffTasks(older, newer *Task) *TaskDiff {
	out := &TaskDiff{Type: typeOf(older != nil, newer != nil)}
	a, b := orEmpty(older), orEmpty(newer)
	if out.Name = b.Name; newer == nil {
		out.Name = a.Name
	}
	d := differ{older != nil, newer != nil, false}
	out.Fields, out.Objects = d.fields(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
	if out.Type == DiffTypeEdited && len(out.Fields)+len(out.Objects) == 0 {
		out.Type = DiffTypeNone
	}
	return out
}

func orEmpty[T any](v *T) *T {
	if v == nil {
		return new(T)
	}
	return v
}

func typeOf(hasOld, hasNew bool) DiffType {
	switch {
	case !hasOld && hasNew:
		return DiffTypeAdded
	case hasOld && !hasNew:
		return DiffTypeDeleted
	}
	return DiffTypeEdited
}

// pairUp matches elements by name, the older ones' order first.
func pairUp[T any](older, newer []*T, name func(*T) string) [][2]*T {
	var out [][2]*T
	at := map[string]int{}
	for _, e := range older {
		at[name(e)] = len(out)
		out = append(out, [2]*T{e, nil})
	}
	for _, e := range newer {
		if i, ok := at[name(e)]; ok && out[i][1] == nil {
			out[i][1] = e
			continue
		}
		out = append(out, [2]*T{nil, e})
	}
	return out
}

// differ compares two structs of one type. With context, unchanged fields are included
// as None.
type differ struct {
	hasOld, hasNew bool
	context        bool
}

// notCompared are the fields of a struct type that servers set, that identify the
// object, or that are compared elsewhere.
var notCompared = map[string][]string{
	"Job": {"ID", "Status", "StatusDescription", "Stable", "Version", "SubmitTime", "VersionTag", "NomadTokenID",
		"CreateIndex", "ModifyIndex", "JobModifyIndex", "Update", "TaskGroups", "Payload", "DispatchIdempotencyToken"},
	"TaskGroup":       {"Name", "Tasks"},
	"Task":            {"Name"},
	"ScalingPolicy":   {"ID", "Target", "Type", "CreateIndex", "ModifyIndex"},
	"UpdateStrategy":  {"Stagger"},
	"NetworkResource": {"MBits", "Device", "CIDR", "IP"},
}

// objectNames are the names of blocks whose name in a diff differs from the field's.
var objectNames = map[string]string{
	"Constraints": "Constraint", "Affinities": "Affinity", "Spreads": "Spread", "Networks": "Network", "Services": "Service",
	"Checks": "Check", "ReservedPorts": "Static Port", "DynamicPorts": "Dynamic Port", "Templates": "Template", "Artifacts": "Artifact",
	"Actions": "Action", "Volumes": "Volume", "VolumeMounts": "VolumeMount", "Identities": "Identity", "Devices": "Device",
	"Secrets": "Secret", "ScalingPolicies": "Scaling", "Links": "Link", "Regions": "Region", "Upstreams": "ConsulUpstreams",
}

// withContext are the blocks that are shown with all their fields.
var withContext = map[string]bool{"Service": true, "Check": true, "Network": true, "Template": true, "Identity": true}

func (d differ) fields(a, b reflect.Value) ([]*FieldDiff, []*ObjectDiff) {
	skip := map[string]bool{}
	for _, name := range notCompared[a.Type().Name()] {
		skip[name] = true
	}
	var fields []*FieldDiff
	var objects []*ObjectDiff
	for i := range a.NumField() {
		f := a.Type().Field(i)
		if skip[f.Name] || f.Tag.Get("json") == "-" {
			continue
		}
		more, nested := d.one(f.Name, a.Field(i), b.Field(i))
		fields = append(fields, more...)
		objects = append(objects, nested...)
	}
	sort.SliceStable(fields, func(i, j int) bool { return fields[i].Name < fields[j].Name })
	return fields, objects
}

// one compares one field of a struct.
func (d differ) one(name string, a, b reflect.Value) ([]*FieldDiff, []*ObjectDiff) {
	switch t := a.Type(); {
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String:
		return d.stringMap(name, a, b), nil
	case t.Kind() == reflect.Map && !isStruct(t.Elem()):
		return nil, d.object(objectName(name), d.freeFields(a, b), nil, a.Len() > 0, b.Len() > 0)
	case t.Kind() == reflect.Map:
		return nil, d.elements(name, mapElements(a), mapElements(b))
	case t.Kind() == reflect.Slice && isStruct(t.Elem()):
		return nil, d.elements(name, sliceElements(a), sliceElements(b))
	case t.Kind() == reflect.Slice:
		return nil, d.object(name, d.stringSet(name, a, b), nil, a.Len() > 0, b.Len() > 0)
	case isStruct(t):
		return nil, d.structs(objectName(name), a, b)
	}
	if f := d.field(name, scalar(a), scalar(b), isUnset(a) && isUnset(b)); f != nil {
		return []*FieldDiff{f}, nil
	}
	return nil, nil
}

func objectName(field string) string {
	if n, ok := objectNames[field]; ok {
		return n
	}
	return field
}

func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

func isUnset(v reflect.Value) bool { return v.Kind() == reflect.Pointer && v.IsNil() }

// scalar prints a value; nil is empty.
func scalar(v reflect.Value) string {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
		return ""
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// field compares two printed values. unset means that neither side has a value.
func (d differ) field(name, older, newer string, unset bool) *FieldDiff {
	if !d.hasOld {
		older = ""
	}
	if !d.hasNew {
		newer = ""
	}
	out := &FieldDiff{Name: name, Old: older, New: newer}
	switch {
	case unset:
		return nil
	case older == newer && d.context:
		out.Type = DiffTypeNone
	case older == newer:
		return nil
	case older == "":
		out.Type = DiffTypeAdded
	case newer == "":
		out.Type = DiffTypeDeleted
	default:
		out.Type = DiffTypeEdited
	}
	return out
}

func (d differ) stringMap(name string, a, b reflect.Value) []*FieldDiff {
	keys := map[string]bool{}
	for _, m := range []reflect.Value{a, b} {
		for _, k := range m.MapKeys() {
			keys[k.String()] = true
		}
	}
	var out []*FieldDiff
	for k := range keys {
		get := func(m reflect.Value) string {
			if e := m.MapIndex(reflect.ValueOf(k)); e.IsValid() {
				return e.String()
			}
			return ""
		}
		if f := d.field(name+"["+k+"]", get(a), get(b), false); f != nil {
			out = append(out, f)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// stringSet compares lists of plain values as sets, in the form of the reference.
func (d differ) stringSet(name string, a, b reflect.Value) []*FieldDiff {
	count := map[string]int{}
	var order []string
	note := func(v reflect.Value, by int) {
		for i := range v.Len() {
			s := scalar(v.Index(i))
			if _, ok := count[s]; !ok {
				order = append(order, s)
			}
			count[s] += by
		}
	}
	note(a, -1)
	note(b, 1)
	sort.Strings(order)
	var out []*FieldDiff
	for _, s := range order {
		switch {
		case count[s] > 0:
			out = append(out, &FieldDiff{Type: DiffTypeAdded, Name: name, New: s})
		case count[s] < 0:
			out = append(out, &FieldDiff{Type: DiffTypeDeleted, Name: name, Old: s})
		}
	}
	return out
}

// freeFields compares free content by path: args[0], mounts[0][type].
func (d differ) freeFields(a, b reflect.Value) []*FieldDiff {
	olds, news := map[string]string{}, map[string]string{}
	flatten("", a, olds)
	flatten("", b, news)
	keys := map[string]bool{}
	for _, m := range []map[string]string{olds, news} {
		for k := range m {
			keys[k] = true
		}
	}
	var out []*FieldDiff
	for k := range keys {
		if f := d.field(k, olds[k], news[k], false); f != nil {
			out = append(out, f)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func flatten(path string, v reflect.Value, into map[string]string) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			key := scalar(it.Key())
			if path != "" {
				key = path + "[" + key + "]"
			}
			flatten(key, it.Value(), into)
		}
	case reflect.Slice:
		for i := range v.Len() {
			flatten(path+"["+strconv.Itoa(i)+"]", v.Index(i), into)
		}
	default:
		into[path] = scalar(v)
	}
}

// structs compares two blocks, either of which may be absent.
func (d differ) structs(name string, a, b reflect.Value) []*ObjectDiff {
	hasOld, hasNew := d.hasOld, d.hasNew
	if a.Kind() == reflect.Pointer {
		t := a.Type().Elem()
		hasOld, hasNew = hasOld && !a.IsNil(), hasNew && !b.IsNil()
		a, b = elemOrZero(a, t), elemOrZero(b, t)
	}
	if !hasOld && !hasNew {
		return nil
	}
	inner := differ{hasOld, hasNew, withContext[name]}
	fields, objects := inner.fields(a, b)
	return d.object(name, fields, objects, hasOld, hasNew)
}

func elemOrZero(v reflect.Value, t reflect.Type) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(t)
	}
	return v.Elem()
}

// object wraps changes into a block, or returns nothing if nothing changed.
func (d differ) object(name string, fields []*FieldDiff, objects []*ObjectDiff, hasOld, hasNew bool) []*ObjectDiff {
	changed := len(objects) > 0 || hasOld != hasNew
	for _, f := range fields {
		changed = changed || f.Type != DiffTypeNone
	}
	if !changed || !hasOld && !hasNew {
		return nil
	}
	return []*ObjectDiff{{Type: typeOf(hasOld, hasNew), Name: name, Fields: fields, Objects: objects}}
}
