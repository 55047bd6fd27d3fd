// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible_test

import (
	"maps"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

func constraint(l, r string) []*model.Constraint {
	return []*model.Constraint{{LTarget: l, Operand: "=", RTarget: r}}
}

func TestEachConstraintOfAJobItsGroupAndItsTasksHasToHold(t *testing.T) {
	n := &model.Node{ID: "id", ComputedClass: "c", Attributes: map[string]string{"os": "linux", "driver.exec": "1"}}
	good, bad := constraint("${attr.os}", "linux"), constraint("${attr.os}", "bsd")
	for name, c := range map[string]struct {
		job, group, task []*model.Constraint
		want             string
	}{
		"all hold":          {good, good, good, ""},
		"that of the job":   {bad, good, good, "${attr.os} = bsd"},
		"that of the group": {good, bad, good, "${attr.os} = bsd"},
		"that of the task":  {good, good, bad, "${attr.os} = bsd"},
		"those about other allocs say nothing of a node": {
			[]*model.Constraint{{Operand: model.ConstraintDistinctHosts}, {LTarget: "${attr.none}", Operand: model.ConstraintDistinctProperty}}, nil, nil, ""},
	} {
		tg := &model.TaskGroup{Constraints: c.group, Tasks: []*model.Task{{Name: "t", Driver: "exec", Constraints: c.task}}}
		if got := feasible.NewChecker(&model.Job{Constraints: c.job}, tg).Check(n); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
		if got := feasible.NewChecker(&model.Job{Constraints: c.job}, tg).Stays(n); got != c.want {
			t.Errorf("%s: of an alloc that runs %q, not %q", name, got, c.want)
		}
	}
}

func TestADriverThatIsOutOfOrderTakesNothingNewAndEndsNothing(t *testing.T) {
	tg := &model.TaskGroup{Tasks: []*model.Task{{Name: "t", Driver: "exec"}}}
	for name, c := range map[string]struct {
		node *model.Node
		want string
	}{
		"it works":            {&model.Node{Drivers: map[string]*model.DriverInfo{"exec": {Detected: true, Healthy: true}}}, ""},
		"it is unhealthy":     {&model.Node{Drivers: map[string]*model.DriverInfo{"exec": {Detected: true}}}, feasible.ReasonDrivers},
		"what it says counts": {&model.Node{Drivers: map[string]*model.DriverInfo{"exec": {}}, Attributes: map[string]string{"driver.exec": "1"}}, feasible.ReasonDrivers},
		"by an attribute":     {&model.Node{Attributes: map[string]string{"driver.exec": "true"}}, ""},
		"it is switched off":  {&model.Node{Attributes: map[string]string{"driver.exec": "0"}}, feasible.ReasonDrivers},
		"nonsense":            {&model.Node{Attributes: map[string]string{"driver.exec": "maybe"}}, feasible.ReasonDrivers},
		"there is none":       {&model.Node{}, feasible.ReasonDrivers},
	} {
		if got := feasible.NewChecker(&model.Job{}, tg).Check(c.node); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
		if got := feasible.NewChecker(&model.Job{}, tg).Stays(c.node); got != "" {
			t.Errorf("%s: an alloc that runs has to leave: %q", name, got)
		}
	}
}

// The nodes of a class have one answer, except to what is each node's own.
func TestANodeIsAskedItselfOnlyAboutWhatIsItsOwn(t *testing.T) {
	host := map[string]*model.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}
	both := map[string]*model.VolumeRequest{"a": {Name: "a", Type: "csi", Source: "data"}, "b": {Name: "b", Type: "host", Source: "data"}, "c": {Name: "c", Type: "other"}}
	csi := map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "data"}}
	for name, c := range map[string]struct {
		group            *model.TaskGroup
		escaped, perNode bool
	}{
		"nothing":                      {&model.TaskGroup{}, false, false},
		"a property of its class":      {&model.TaskGroup{Constraints: constraint("${attr.os}", "linux")}, false, false},
		"a property of its own":        {&model.TaskGroup{Constraints: constraint("${node.unique.id}", "n1")}, true, true},
		"the same on the other side":   {&model.TaskGroup{Constraints: constraint("n1", "${node.unique.id}")}, true, true},
		"another alloc's property":     {&model.TaskGroup{Constraints: []*model.Constraint{{LTarget: "${node.unique.id}", Operand: model.ConstraintDistinctProperty}}}, false, false},
		"a volume of the host":         {&model.TaskGroup{Volumes: host}, false, true},
		"a volume of a storage plugin": {&model.TaskGroup{Volumes: csi}, true, true},
		"several volumes":              {&model.TaskGroup{Volumes: both}, true, true},
	} {
		k := feasible.NewChecker(&model.Job{}, c.group)
		if k.Escaped() != c.escaped || k.PerNode() != c.perNode {
			t.Errorf("%s: escaped %t, per node %t", name, k.Escaped(), k.PerNode())
		}
	}
	k := feasible.NewChecker(&model.Job{}, &model.TaskGroup{Constraints: append(constraint("${attr.os}", "linux"), constraint("${node.unique.id}", "n1")...)})
	linux, bsd := map[string]string{"os": "linux"}, map[string]string{"os": "bsd"}
	for _, n := range []struct {
		node *model.Node
		want string
	}{
		{&model.Node{ID: "n1", ComputedClass: "c", Attributes: linux}, ""},
		{&model.Node{ID: "n2", ComputedClass: "c", Attributes: linux}, "${node.unique.id} = n1"},
		{&model.Node{ID: "n1", ComputedClass: "c", Attributes: bsd}, ""}, // which no node is: the class is known
		{&model.Node{ID: "n1", ComputedClass: "d", Attributes: bsd}, "${attr.os} = linux"},
		{&model.Node{ID: "n1", Attributes: bsd}, "${attr.os} = linux"}, // without a class each is asked
		{&model.Node{ID: "n1", Attributes: linux}, ""},
	} {
		if got := k.Check(n.node); got != n.want {
			t.Errorf("%+v: %q, not %q", n.node, got, n.want)
		}
	}
	if got, want := k.Classes(), map[string]bool{"c": true, "d": false}; !maps.Equal(got, want) {
		t.Errorf("the classes are %v", got)
	}
}

func TestADatacenterIsMatchedByItsNameOrAGlob(t *testing.T) {
	for glob, want := range map[string]bool{"dc1": true, "*": true, "dc*": true, "dc?": true, "dc[12]": true, "dc2": false, "d": false, "x*": false, "dc[": false} {
		if got := feasible.InDatacenters("dc1", []string{"none", glob}); got != want {
			t.Errorf("%s: %t", glob, got)
		}
	}
	if feasible.InDatacenters("dc1", nil) {
		t.Error("of no datacenters it is one")
	}
}

func TestAnAffinityIsTheWeightedShareOfWhatMatches(t *testing.T) {
	n := &model.Node{Attributes: map[string]string{"os": "linux"}}
	a := func(value string, weight int8) *model.Affinity {
		return &model.Affinity{LTarget: "${attr.os}", Operand: "=", RTarget: value, Weight: weight}
	}
	for _, c := range []struct {
		affinities []*model.Affinity
		want       float64
	}{
		{nil, 0}, {[]*model.Affinity{a("linux", 50)}, 1}, {[]*model.Affinity{a("linux", -50)}, -1}, {[]*model.Affinity{a("bsd", 50)}, 0},
		{[]*model.Affinity{a("linux", 50), a("bsd", 50)}, 0.5}, {[]*model.Affinity{a("linux", -25), a("bsd", 75)}, -0.25}, {[]*model.Affinity{a("linux", 0)}, 0},
	} {
		if got := feasible.NewChecker(&model.Job{}, &model.TaskGroup{}).Affinity(c.affinities, n); got != c.want {
			t.Errorf("%v, not %v", got, c.want)
		}
	}
}

func TestAHostVolumeIsThereForANewAllocAndForOneThatRuns(t *testing.T) {
	request := func(edit func(*model.VolumeRequest)) *model.VolumeRequest {
		v := &model.VolumeRequest{Name: "v", Type: "host", Source: "data"}
		edit(v)
		return v
	}
	plain := request(func(*model.VolumeRequest) {})
	reads := request(func(v *model.VolumeRequest) { v.ReadOnly = true })
	own := request(func(v *model.VolumeRequest) { v.PerAlloc = true })
	has := map[string]*model.HostVolumeConfig{"data": {Name: "data"}}
	locked := map[string]*model.HostVolumeConfig{"data": {Name: "data", ReadOnly: true}}
	for name, c := range map[string]struct {
		request      *model.VolumeRequest
		node         map[string]*model.HostVolumeConfig
		check, stays string
		class        bool // what is said of the nodes of its class
	}{
		"it is there":                    {plain, has, "", "", true},
		"it is not there":                {plain, nil, feasible.ReasonHostVolumes, feasible.ReasonHostVolumes, false},
		"it may only be read":            {plain, locked, feasible.ReasonHostVolumes, feasible.ReasonHostVolumes, false},
		"it may be read, and is":         {reads, locked, "", "", true},
		"one for each alloc":             {own, map[string]*model.HostVolumeConfig{"data[0]": {Name: "data[0]"}}, "", "", true},
		"one for each, and there is one": {own, has, feasible.ReasonHostVolumes, "", true},
	} {
		tg := &model.TaskGroup{Volumes: map[string]*model.VolumeRequest{"v": c.request}}
		n := &model.Node{ID: "n", ComputedClass: "c", HostVolumes: c.node}
		k := feasible.NewChecker(&model.Job{}, tg)
		if got := k.Check(n); got != c.check {
			t.Errorf("%s: of a new alloc %q, not %q", name, got, c.check)
		}
		if got := k.Classes()["c"]; got != c.class {
			t.Errorf("%s: its class is feasible: %t", name, got)
		}
		if got := k.Stays(n); got != c.stays {
			t.Errorf("%s: of one that runs %q, not %q", name, got, c.stays)
		}
	}
}
