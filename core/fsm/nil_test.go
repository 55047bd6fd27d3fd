// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// everyCommand returns an empty value of each command.
func everyCommand() []fsm.Command {
	var out []fsm.Command
	for kind := range 256 {
		if c := fsm.NewCommand(byte(kind)); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// sparse fills a value so that everything is there on the first levels and nil
// below: lists and maps get a nil and an empty element.
func sparse(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			sparse(v.Elem(), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				sparse(v.Field(i), depth)
			}
		}
	case reflect.Slice:
		if depth > 0 {
			s := reflect.MakeSlice(v.Type(), 2, 2)
			sparse(s.Index(1), depth-1)
			v.Set(s)
		}
	case reflect.Map:
		if depth > 0 && v.Type().Key().Kind() == reflect.String {
			m := reflect.MakeMap(v.Type())
			m.SetMapIndex(reflect.ValueOf("nil").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
			full := reflect.New(v.Type().Elem()).Elem()
			sparse(full, depth-1)
			m.SetMapIndex(reflect.ValueOf("web").Convert(v.Type().Key()), full)
			v.Set(m)
		}
	case reflect.String:
		if v.String() == "" && depth >= 0 {
			v.SetString("web") // what the state below has
		}
	}
}

func TestNoCommandPanicsOnWhatIsMissing(t *testing.T) {
	for depth := range 5 {
		for _, c := range everyCommand() {
			if _, ok := c.(*fsm.Batch); ok {
				continue
			}
			t.Run(fmt.Sprintf("%T/%d", c, depth), func(t *testing.T) {
				f := newFSM()
				mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 2)})
				mustApply(t, f, &fsm.ApplyPlan{Plan: &model.Plan{Deployment: &model.Deployment{ID: "web", JobID: "web", Namespace: "default", Status: "running", TaskGroups: map[string]*model.DeploymentState{"web": {}}}}})
				mustApply(t, f, &fsm.RegisterNode{Node: &model.Node{ID: "web", Name: "web"}})
				mustApply(t, f, place(t, f, &model.Allocation{ID: "web", Namespace: "default", JobID: "web", NodeID: "web", TaskGroup: "web"}))
				sparse(reflect.ValueOf(c).Elem(), depth)
				data, err := fsm.Encode(c)
				if err != nil {
					return // it does not get into the log
				}
				if err, ok := f.ApplyBatch([]fsm.Entry{{Index: f.Store().View().Index() + 1, Data: data}})[0].(error); ok && errdefs.IsInternal(err) {
					t.Error(err)
				}
				mustApply(t, f, &fsm.UpsertJob{Job: testJob("other", 2)})
				snapshotOf(t, f)
			})
		}
	}
}
