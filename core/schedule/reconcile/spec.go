// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"reflect"

	"github.com/drover-project/drover/core/model"
)

// SameRuntime reports whether an alloc of a group of job a can continue under job b:
// everything with which a running task was started is equal.
func SameRuntime(a, b *model.Job, group string) bool {
	if a == nil || b == nil {
		return false
	}
	if a == b {
		return true
	}
	x, y := a.LookupTaskGroup(group), b.LookupTaskGroup(group)
	if x == nil || y == nil {
		return false
	}
	return same(a.Meta, b.Meta) && reflect.DeepEqual(runtimeOf(x), runtimeOf(y))
}

// sameButResources reports whether an alloc of a group of job a could continue under job b
// if it got other resources: cpu, memory and memory_max. Cores, devices and the sizes of
// what a task's directory contains cannot change while it runs.
func sameButResources(a, b *model.Job, group string) bool {
	if a == nil || b == nil {
		return false
	}
	x, y := a.LookupTaskGroup(group), b.LookupTaskGroup(group)
	if x == nil || y == nil {
		return false
	}
	return same(a.Meta, b.Meta) && reflect.DeepEqual(withoutResources(runtimeOf(x)), withoutResources(runtimeOf(y)))
}

// withoutResources removes from the tasks of a copy what sameButResources ignores.
func withoutResources(tg *model.TaskGroup) *model.TaskGroup {
	for _, t := range tg.Tasks {
		if t.Resources != nil {
			r := *t.Resources
			r.CPU, r.MemoryMB, r.MemoryMaxMB = 0, 0, 0
			t.Resources = &r
		}
	}
	return tg
}

// same compares maps; nil equals empty.
func same(a, b map[string]string) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// runtimeOf returns a copy of the group without the fields that only servers use and
// those that a node can change for a running task.
func runtimeOf(tg *model.TaskGroup) *model.TaskGroup {
	c := *tg
	c.Count, c.Update, c.Migrate, c.Scaling = 0, nil, nil, nil
	c.RestartPolicy, c.ReschedulePolicy, c.Disconnect = nil, nil, nil
	c.Constraints, c.Affinities, c.Spreads, c.Services = nil, nil, nil, nil
	c.ShutdownDelay, c.StopAfterClientDisconnect, c.MaxClientDisconnect, c.MaxRunDuration = nil, nil, nil, nil
	c.PreventRescheduleOnLost, c.DependsOn = false, nil
	c.Tasks = make([]*model.Task, len(tg.Tasks))
	for i, t := range tg.Tasks {
		k := *t
		k.Constraints, k.Affinities, k.Services, k.RestartPolicy = nil, nil, nil, nil
		k.ScalingPolicies, k.Actions, k.DependsOn = nil, nil, nil
		k.KillTimeout, k.ShutdownDelay = 0, 0
		c.Tasks[i] = &k
	}
	return &c
}
