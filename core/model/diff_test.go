// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// TestEveryFieldOfAJobCanBeCompared compares a job in which everything is set with itself and with
// an empty one, so that the diff cannot fail at a field of a new form.
func TestEveryFieldOfAJobCanBeCompared(t *testing.T) {
	full := &model.Job{}
	setAll(reflect.ValueOf(full).Elem(), 0)
	full.Version = 1
	if d, err := model.DiffJobs(full, full.Copy()); err != nil || d.Type != model.DiffTypeNone {
		t.Fatalf("a job differs from itself: %+v, %v", d, err)
	}
	if _, err := model.DiffJobs(nil, full); err != nil {
		t.Errorf("a new job: %v", err)
	}
	other := full.Copy()
	other.TaskGroups[0].Services[0].Checks[0].Header = map[string][]string{"text": {"other"}}
	d, err := model.DiffJobs(full, other)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(d); !strings.Contains(string(text), `"Type":"Edited","Name":"text[0]","Old":"text","New":"other"`) {
		t.Errorf("the changed header of a check is not named: %s", text)
	}
	empty := &model.Job{ID: full.ID, Type: full.Type, TaskGroups: []*model.TaskGroup{{Name: full.TaskGroups[0].Name, Tasks: []*model.Task{{Name: full.TaskGroups[0].Tasks[0].Name}}}}}
	for _, pair := range [][2]*model.Job{{full, empty}, {empty, full}} {
		if d, err := model.DiffJobs(pair[0], pair[1]); err != nil || d.Type != model.DiffTypeEdited {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

// setAll sets all fields; lists and maps get one element.
func setAll(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth < 40 {
			v.Set(reflect.New(v.Type().Elem()))
			setAll(v.Elem(), depth+1)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				setAll(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		e := reflect.New(v.Type().Elem()).Elem()
		setAll(e, depth+1)
		v.Set(reflect.Append(v, e))
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		setAll(e, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("text").Convert(v.Type().Key()), e)
	case reflect.Interface:
		v.Set(reflect.ValueOf("text"))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else if v.CanUint() {
			v.SetUint(1)
		} else if v.CanFloat() {
			v.SetFloat(1)
		}
	}
}
