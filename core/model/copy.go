// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "reflect"

// Copy returns a job that shares nothing with j.
func (j *Job) Copy() *Job { return deepCopy(j) }

// Copy returns a group that shares nothing with tg.
func (tg *TaskGroup) Copy() *TaskGroup { return deepCopy(tg) }

// Copy returns a task that shares nothing with t.
func (t *Task) Copy() *Task { return deepCopy(t) }

func deepCopy[T any](v *T) *T {
	if v == nil {
		return nil
	}
	out := new(T)
	copyValue(reflect.ValueOf(out).Elem(), reflect.ValueOf(v).Elem())
	return out
}

// copyValue supports the types that models are made of: exported fields, pointers,
// slices, maps and interface values with free content.
func copyValue(dst, src reflect.Value) {
	switch src.Kind() {
	case reflect.Pointer:
		if !src.IsNil() {
			dst.Set(reflect.New(src.Type().Elem()))
			copyValue(dst.Elem(), src.Elem())
		}
	case reflect.Interface:
		if !src.IsNil() {
			e := reflect.New(src.Elem().Type()).Elem()
			copyValue(e, src.Elem())
			dst.Set(e)
		}
	case reflect.Struct:
		for i := range src.NumField() {
			copyValue(dst.Field(i), src.Field(i))
		}
	case reflect.Slice:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.MakeSlice(src.Type(), src.Len(), src.Len()))
		for i := range src.Len() {
			copyValue(dst.Index(i), src.Index(i))
		}
	case reflect.Map:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.MakeMapWithSize(src.Type(), src.Len()))
		for it := src.MapRange(); it.Next(); {
			e := reflect.New(src.Type().Elem()).Elem()
			copyValue(e, it.Value())
			dst.SetMapIndex(it.Key(), e)
		}
	default:
		dst.Set(src)
	}
}

// SpecChanged reports whether two versions of a job differ in what a user wrote.
// Indexes, status and times do not count.
func SpecChanged(a, b *Job) bool {
	if a == nil || b == nil {
		return a != b
	}
	return !sameValue(reflect.ValueOf(specOf(a)), reflect.ValueOf(specOf(b)))
}

// specOf returns a shallow copy of j without the fields that servers set.
func specOf(j *Job) Job {
	s := *j
	s.Status, s.StatusDescription, s.Stable, s.Version, s.SubmitTime, s.VersionTag = "", "", false, 0, 0, nil
	s.CreateIndex, s.ModifyIndex, s.JobModifyIndex, s.NomadTokenID = 0, 0, 0, ""
	return s
}

// ignoredInSpec are the fields that servers set inside the parts of a job.
var ignoredInSpec = map[string]bool{"CreateIndex": true, "ModifyIndex": true}

// sameValue is reflect.DeepEqual with these exceptions: nil and empty are equal,
// numbers in free content are compared by value, and ignoredInSpec and the ID of a
// scaling policy, which servers set too, are skipped.
func sameValue(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	if a.Type() != b.Type() {
		return numbersEqual(a, b)
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return sameValue(a.Elem(), b.Elem())
	case reflect.Struct:
		policy := a.Type() == reflect.TypeFor[ScalingPolicy]()
		for i := range a.NumField() {
			name := a.Type().Field(i).Name
			if ignoredInSpec[name] || policy && name == "ID" {
				continue
			}
			if !sameValue(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !sameValue(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for it := a.MapRange(); it.Next(); {
			other := b.MapIndex(it.Key())
			if !other.IsValid() || !sameValue(it.Value(), other) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// numbersEqual compares numbers in free content, of which one may be an int and the
// other a float64 from JSON.
func numbersEqual(a, b reflect.Value) bool {
	return (a.CanInt() || a.CanFloat()) && (b.CanInt() || b.CanFloat()) && asFloat(a) == asFloat(b)
}

func asFloat(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}
