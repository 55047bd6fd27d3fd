// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/services"
)

const (
	servicesByName = iota
	servicesByJob
	servicesByAlloc
)

// Indexes by which registrations of services can be watched.
const (
	ByService = "service" // Value: JobKey(namespace, name of the service)
	ByAlloc   = "alloc"   // Value: alloc id
)

// TableServices is the name of the table of registrations of services.
const TableServices = "services"

// Registrations are derived from allocs, their jobs and their nodes, so they are not saved.
// The index of the table is, since clients wait for it.
var serviceTable = &kind[model.ServiceRegistration]{
	heading: heading{name: TableServices},
	schema: schema[model.ServiceRegistration]{
		id: func(r *model.ServiceRegistration) string { return JobKey(r.Namespace, r.ID) },
		secondaries: []secondary[model.ServiceRegistration]{
			servicesByName:  {name: ByService, watched: true, key: func(r *model.ServiceRegistration) string { return JobKey(r.Namespace, r.ServiceName) }},
			servicesByJob:   {name: ByJob, watched: true, key: func(r *model.ServiceRegistration) string { return JobKey(r.Namespace, r.JobID) }},
			servicesByAlloc: {name: ByAlloc, watched: true, key: func(r *model.ServiceRegistration) string { return r.AllocID }},
		},
	},
}

// Services yields the registrations of a namespace ("": of all), ordered by namespace and
// id.
func (v *View) Services(ns string) iter.Seq[*model.ServiceRegistration] {
	return func(yield func(*model.ServiceRegistration) bool) {
		from := ""
		if ns != "" {
			from = JobKey(ns, "")
		}
		for r := range serviceTable.in(v.t).all(from) {
			if ns != "" && r.Namespace != ns || !yield(r) {
				return
			}
		}
	}
}

// ServicesByName returns the registrations of a service in a namespace.
func (v *View) ServicesByName(ns, name string) []*model.ServiceRegistration {
	return serviceTable.in(v.t).list(servicesByName, JobKey(ns, name))
}

// ServicesByJob returns the registrations of a job's allocs.
func (v *View) ServicesByJob(ns, id string) []*model.ServiceRegistration {
	return serviceTable.in(v.t).list(servicesByJob, JobKey(ns, id))
}

// ServicesByAlloc returns the registrations of an alloc.
func (v *View) ServicesByAlloc(id string) []*model.ServiceRegistration {
	return serviceTable.in(v.t).list(servicesByAlloc, id)
}

// ServiceByID returns a registration.
func (v *View) ServiceByID(ns, id string) *model.ServiceRegistration {
	return serviceTable.in(v.t).get(JobKey(ns, id))
}

// Deregister removes a registration. It comes back when its alloc is updated or one of its
// tasks starts again.
func (tx *Tx) Deregister(r *model.ServiceRegistration) {
	old := allocTable.in(tx.t).find(r.AllocID)
	if old == nil || slices.Contains(old.Deregistered, r.ID) {
		return
	}
	c := *old
	c.Deregistered = append(slices.Clip(old.Deregistered), r.ID)
	tx.writeAlloc(&c)
}

// levelStarts is the lowest capability level at which a task has started again, for
// registerAnew, if nobody has seen it between its two runs.
const levelStarts = 2

// registerAnew brings back registrations that an operator removed, if this write updates
// the alloc or starts one of its tasks. On these two occasions a node registers services.
func (tx *Tx) registerAnew(old, a *model.Allocation) {
	if old == nil || len(a.Deregistered) == 0 {
		return
	}
	anew := old.JobVersion != a.JobVersion
	for name, s := range a.TaskStates {
		was := old.TaskStates[name]
		if was == s || s.State != model.TaskStateRunning {
			continue
		}
		anew = anew || was == nil || was.State != model.TaskStateRunning || !sameTime(was.StartedAt, s.StartedAt) && tx.View().Level() >= levelStarts
	}
	if anew {
		a.Deregistered = nil
	}
}

func sameTime(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }

// accountServices makes settle derive the registrations of an alloc again.
func (tx *Tx) accountServices(old, a *model.Allocation) {
	if !services.May(old) && !services.May(a) {
		return
	}
	if tx.derived.services == nil {
		tx.derived.services = map[string]bool{}
	}
	if a == nil {
		a = old
	}
	tx.derived.services[a.ID] = true
}

// accountServicesOfNode marks the allocs of a node for settleServices if the node changed
// in a field that registrations contain.
func (tx *Tx) accountServicesOfNode(old, n *model.Node) {
	if old != nil && n != nil && old.Datacenter == n.Datacenter && maps.Equal(old.Attributes, n.Attributes) && maps.Equal(old.Meta, n.Meta) {
		return
	}
	node := n
	if node == nil {
		node = old
	}
	for a := range allocTable.in(tx.t).scan(allocsByNode, node.ID) {
		tx.accountServices(nil, a)
	}
}

// settleServices writes the difference between the stored and the current registrations of
// an alloc.
func (tx *Tx) settleServices(id string) {
	t := serviceTable.in(tx.t)
	a := allocTable.in(tx.t).find(id)
	var now []*model.ServiceRegistration
	if services.May(a) {
		v := tx.View()
		now = services.Registrations(services.Input{Alloc: a, Job: v.JobOf(a), Node: v.NodeByID(a.NodeID)})
	}
	var had []*model.ServiceRegistration
	if !tx.restore {
		had = t.list(servicesByAlloc, id)
	}
	for _, r := range had {
		if !slices.ContainsFunc(now, func(n *model.ServiceRegistration) bool { return n.ID == r.ID }) {
			record(tx, serviceTable, t.delete(JobKey(r.Namespace, r.ID)), nil)
		}
	}
	for _, r := range now {
		if tx.restore {
			r.CreateIndex, r.ModifyIndex = a.ModifyIndex, a.ModifyIndex
			t.put(r)
			continue
		}
		old := t.get(JobKey(r.Namespace, r.ID))
		if old != nil && old.SameAs(r) {
			continue
		}
		r.CreateIndex, r.ModifyIndex = tx.index, tx.index
		if old != nil {
			r.CreateIndex = old.CreateIndex
		}
		t.put(r)
		record(tx, serviceTable, old, r)
	}
}
