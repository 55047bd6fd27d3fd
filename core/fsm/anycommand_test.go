// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

// filler fills commands with random values by their types, so that no command is forgotten.
// Ids come from small sets, so that commands meet what others have stored.
type filler struct{ *world }

// any returns a random command of every kind in turn; nil if what it contains cannot be
// encoded.
func (fl filler) any(kinds []fsm.Command, turn int) fsm.Command {
	c := reflect.New(reflect.TypeOf(kinds[turn%len(kinds)]).Elem()).Interface().(fsm.Command)
	if b, ok := c.(*fsm.Batch); ok {
		for range 1 + fl.rng.IntN(3) {
			part := kinds[fl.rng.IntN(len(kinds))]
			if _, nested := part.(*fsm.Batch); !nested {
				b.Commands = append(b.Commands, fl.one(reflect.New(reflect.TypeOf(part).Elem()).Interface().(fsm.Command)))
			}
		}
		return b
	}
	return fl.one(c)
}

func (fl filler) one(c fsm.Command) fsm.Command {
	fl.fill(reflect.ValueOf(c).Elem(), "", 7)
	if r, ok := c.(*fsm.RaiseLevel); ok {
		r.Level = 1 + fl.rng.IntN(fsm.Level) // a server stops at others
	}
	if d, ok := c.(*fsm.DeleteService); ok && fl.rng.IntN(4) > 0 {
		for r := range fl.f.Store().View().Services("") {
			*d = fsm.DeleteService{Namespace: r.Namespace, Name: r.ServiceName, ID: r.ID}
			if fl.rng.IntN(2) == 0 {
				break
			}
		}
	}
	if r, ok := c.(*fsm.ReportAllocs); ok {
		reports := r.Reports[:0]
		for _, report := range r.Reports {
			if report != nil {
				reports = append(reports, report)
			}
		}
		return fsm.NewReportAllocs(fl.f.Store().View(), r.At, reports, r.Evals)
	}
	return c
}

var timeType = reflect.TypeFor[time.Time]()

// fill sets v, the field with a name of a type, to something random.
func (fl filler) fill(v reflect.Value, name string, depth int) {
	rng := fl.rng
	switch {
	case v.Type() == timeType:
		if rng.IntN(3) > 0 {
			v.Set(reflect.ValueOf(time.Unix(0, fl.now+int64(rng.IntN(100))*int64(time.Second)).UTC()))
		}
		return
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(rng.IntN(3)) * int64(time.Minute))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fl.text(name))
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int64:
		if v.SetInt(int64(rng.IntN(5))); rng.IntN(2) == 0 {
			v.SetInt(fl.now + int64(rng.IntN(60))*int64(time.Second))
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32:
		v.SetInt(int64(rng.IntN(6)))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(rng.IntN(5)))
	case reflect.Uint64:
		if v.SetUint(uint64(rng.IntN(4))); strings.HasSuffix(name, "Index") || name == "Seen" {
			v.SetUint(fl.f.Store().View().Index() - uint64(rng.IntN(3)))
		}
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(rng.IntN(100)) / 7)
	default:
		fl.fillParts(v, name, depth)
	}
}

func (fl filler) fillParts(v reflect.Value, name string, depth int) {
	rng := fl.rng
	few := rng.IntN(3)
	if depth <= 0 {
		few = 0
	}
	switch v.Kind() {
	case reflect.Pointer:
		group := v.Type() == reflect.TypeFor[*model.TaskGroup]() // no job without it is registered
		if group || depth > 0 && (depth > 5 || rng.IntN(3) > 0) {
			v.Set(reflect.New(v.Type().Elem()))
			fl.fill(v.Elem(), name, depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				field := v.Type().Field(i).Name
				if field == "ID" || field == "Name" {
					field = v.Type().Name() + field
				}
				fl.fill(v.Field(i), field, depth)
			}
		}
	case reflect.Slice:
		if name == "Public" { // keys of servers are compared
			v.SetBytes([]byte("public"))
			return
		}
		if rng.IntN(4) == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), few, few))
		for i := range few {
			fl.fill(v.Index(i), strings.TrimSuffix(name, "s"), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fl.fill(v.Index(i), name, depth-1)
		}
	case reflect.Map:
		if rng.IntN(4) == 0 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range few {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fl.fill(key, name+"Key", depth-1)
			fl.fill(value, name, depth-1)
			v.SetMapIndex(key, value)
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf([]any{"text", int64(7), 1.5, true, []any{"a", nil}, map[string]any{"k": "v"}, []byte("b"), uint64(9)}[rng.IntN(8)]))
		}
	}
}

// words are what text fields may contain, by the end of their names.
var words = []struct {
	name string
	of   func(w *world) []string
}{
	{"Namespace", func(*world) []string { return []string{"default", "default", "default", "space"} }},
	{"NamespaceName", func(*world) []string { return []string{"space", "default"} }},
	{"NodePool", func(*world) []string { return []string{"default", "gpu", "all"} }},
	{"ServiceProvider", func(*world) []string { return []string{"nomad"} }},
	{"NodePoolName", func(*world) []string { return []string{"gpu", "default"} }},
	{"ChildID", func(w *world) []string { return []string{"child", w.id()} }},
	{"JobID", func(w *world) []string { return w.jobs[:3] }},
	{"ParentID", func(w *world) []string { return append([]string{"", "", ""}, w.jobs[:3]...) }},
	{"Group", func(*world) []string { return []string{"web"} }},
	{"TaskGroup", func(*world) []string { return []string{"web"} }},
	{"TaskGroupName", func(*world) []string { return []string{"web", "db"} }},
	{"NodeID", func(w *world) []string { return w.nodes }},
	{"DeploymentID", (*world).active},
	{"Healthy", func(w *world) []string { return w.allocs }},
	{"Unhealthy", func(w *world) []string { return w.allocs }},
	{"AllocID", func(w *world) []string { return w.allocs }},
	{"AllocationID", func(w *world) []string { return w.allocs }},
	{"AllocReportID", func(w *world) []string { return w.allocs }},
	{"Transitions" + "Key", func(w *world) []string { return w.allocs }},
	{"Events" + "Key", func(w *world) []string { return w.nodes }},
	{"PreviousAllocation", func(w *world) []string { return append([]string{""}, w.allocs...) }},
	{"NextAllocation", func(*world) []string { return []string{""} }},
	{"EvalID", func(w *world) []string { return w.evals }},
	{"EvaluationID", func(w *world) []string { return append([]string{w.id()}, w.evals...) }},
	{"KeyID", func(*world) []string { return []string{"k1", "k2", "k3"} }},
	{"ServerID", func(*world) []string { return []string{"s1", "s2"} }},
	{"State", func(*world) []string {
		return []string{model.RootKeyActive, model.RootKeyInactive, model.RootKeyPrepublished, "running", "dead"}
	}},
	{"Path", func(*world) []string { return []string{"p/1", "p/2"} }},
	{"LockID", func(*world) []string { return []string{"", "l1"} }},
	{"VariableLockID", func(*world) []string { return []string{"l1", "l2"} }},
	{"Hash", func(w *world) []string { return []string{w.driverSchema().Hash} }},
	{"Driver", func(*world) []string { return []string{"raw_exec", "docker"} }},
	{"PluginSpecName", func(*world) []string { return []string{"p", "q"} }},
	{"RegisterPluginName", func(*world) []string { return []string{"p", "q"} }},
	{"PluginRolloutName", func(*world) []string { return []string{"p", "q"} }},
	{"DeletePluginName", func(*world) []string { return []string{"p", "q"} }},
	{"Act", func(*world) []string { return []string{"pause", "resume", "revert"} }},
	{"ClientStatus", func(*world) []string {
		return []string{"", "pending", "running", "complete", "failed", "lost", "unknown"}
	}},
	{"DesiredStatus", func(*world) []string { return []string{"run", "stop"} }},
	{"Eligibility", func(*world) []string { return []string{"eligible", "ineligible"} }},
	{"CSIVolumeID", func(*world) []string { return []string{"data", "more"} }},
	{"PutCSIAttachmentID", func(*world) []string { return []string{"data"} }},
	{"HostVolumeID", func(*world) []string { return []string{"v1", "v2"} }},
	{"HostVolumeConfigID", func(*world) []string { return []string{"v1", "v2"} }},
	{"HostVolumeName", func(*world) []string { return []string{"data", "data", "more"} }},
	{"HostVolumes" + "Key", func(*world) []string { return []string{"data", "more"} }},
	{"Source", func(*world) []string { return []string{"data", "more"} }},
	{"DeleteVolumeClaimID", (*world).claims},
	{"Status", func(*world) []string {
		return []string{"ready", "down", "disconnected", "running", "pending", "blocked", "complete", "failed", "successful", "paused", "cancelled"}
	}},
}

// active returns the deployments that have not ended.
func (w *world) active() (out []string) {
	for d := range w.f.Store().View().Deployments() {
		if d.Active() {
			out = append(out, d.ID)
		}
	}
	return out
}

// claims returns the claims on sticky volumes.
func (w *world) claims() (out []string) {
	for c := range w.f.Store().View().VolumeClaims() {
		out = append(out, c.ID)
	}
	return out
}

// variable returns a write of one of few variables, with and without locks, as clients send
// them.
func (w *world) variable() fsm.Command {
	path := []string{"p/1", "p/2"}[w.rng.IntN(2)]
	cur := w.f.Store().View().VariableByPath("default", path)
	lock, index := []string{"", "l1", "l2"}[w.rng.IntN(3)], uint64(0)
	if cur != nil {
		index = cur.ModifyIndex
		if cur.Lock != nil && w.rng.IntN(2) == 0 {
			lock = cur.Lock.ID
		}
	}
	cas := w.rng.IntN(3) == 0
	if w.rng.IntN(6) == 0 {
		return &fsm.DeleteVariable{Namespace: "default", Path: path, LockID: lock, CAS: cas, Index: index, Now: w.now}
	}
	v := &model.Variable{Namespace: "default", Path: path, ModifyTime: w.now}
	if w.rng.IntN(3) > 0 {
		v.Data = []byte(w.id())
	}
	op := w.rng.IntN(fsm.VariableReseal + 1)
	if op == fsm.VariableAcquire {
		v.Lock = &model.VariableLock{ID: "l1", TTL: time.Minute, LockDelay: time.Second, Deadline: w.now + int64(time.Duration(w.rng.IntN(3))*time.Second)}
	}
	return &fsm.PutVariable{Variable: v, Op: op, LockID: lock, CAS: cas, Index: index, Now: w.now}
}

// text returns something for a text field.
func (fl filler) text(name string) string {
	best, of := 0, []string{"", "x", "y", fmt.Sprint(fl.rng.IntN(3))}
	for _, ws := range words {
		if strings.HasSuffix(name, ws.name) && len(ws.name) > best {
			if list := ws.of(fl.world); len(list) > 0 {
				best, of = len(ws.name), list
			}
		}
	}
	switch name { // ids of commands that say only ID
	case "DeregisterJobID", "SetJobStabilityID", "SetJobVersionTagID", "JobID":
		of = fl.jobs[:3]
	case "DeleteNamespacesName":
		of = []string{"space", "default"}
	case "DeleteNodePoolsName":
		of = []string{"gpu", "all"}
	case "DeleteDeploymentsID":
		of = append(fl.deps, "")
	case "ID":
		of = append(append([]string{""}, fl.nodes...), fl.deps...)
	}
	return of[fl.rng.IntN(len(of))]
}
