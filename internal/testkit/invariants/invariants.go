// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package invariants checks, for tests, that derived values in a state agree with
// the rows from which they are derived: the usage of nodes, the counts and the
// status of jobs, the counters of deployments, the uses of drivers, and the links
// between allocs and between evaluations. It computes each value from the rows
// alone.
package invariants

import (
	"fmt"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/services"
	"github.com/drover-project/drover/core/state"
)

// Check fails the test for every invariant that the state violates.
func Check(t testing.TB, v *state.View) {
	t.Helper()
	for _, b := range Broken(v) {
		t.Errorf("state at index %d: %s", v.Index(), b)
	}
}

// AtEnd checks the newest state of a store after the test and after the cleanups
// that are registered later.
func AtEnd(t testing.TB, store *state.Store) {
	t.Cleanup(func() { Check(t, store.View()) })
}

// Broken describes every violation of an invariant in the state.
func Broken(v *state.View) []string {
	c := &checker{View: v}
	c.usage()
	c.drivers()
	for job := range v.Jobs("") {
		c.job(job)
	}
	for d := range v.Deployments() {
		c.deployment(d)
	}
	for a := range v.Allocs() {
		c.alloc(a)
	}
	for e := range v.Evals() {
		c.eval(e)
	}
	c.services()
	return c.broken
}

type checker struct {
	*state.View
	broken []string
}

func (c *checker) sayf(format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf(format, args...))
}

// usage checks that a node's usage is the sum of its allocs that have not ended.
func (c *checker) usage() {
	want := map[string]model.NodeUse{}
	for n := range c.Nodes() {
		want[n.ID] = model.NodeUse{}
	}
	for a := range c.Allocs() {
		use := want[a.NodeID]
		if !a.ClientTerminalStatus() && a.AllocatedResources != nil {
			r := a.AllocatedResources.Comparable()
			use = model.NodeUse{CPU: use.CPU + r.CPUShares, MemoryMB: use.MemoryMB + r.MemoryMB, DiskMB: use.DiskMB + r.DiskMB}
		}
		want[a.NodeID] = use
	}
	for id, use := range want {
		cpu, mem, disk := c.NodeUsed(id)
		if got := (model.NodeUse{CPU: cpu, MemoryMB: mem, DiskMB: disk}); id != "" && got != use {
			c.sayf("node %s uses %+v, its allocs %+v", id, got, use)
		}
	}
}

// drivers checks that the uses of drivers equal the number of nodes that have them,
// and that a schema in use is not marked as unused.
func (c *checker) drivers() {
	want, names := map[model.DriverUse]int{}, map[string]bool{}
	for n := range c.Nodes() {
		for name, info := range n.Drivers {
			names[name] = true
			want[model.DriverUse{Driver: name, Hash: info.SchemaHash, Version: info.PluginVersion, Datacenter: n.Datacenter, NodePool: n.NodePool, Detected: info.Detected}]++
		}
	}
	got := 0
	for name := range names {
		for _, u := range c.DriverUses(name) {
			key := *u
			key.Nodes = 0
			if u.Nodes != want[key] {
				c.sayf("%+v, but %d nodes have it", *u, want[key])
			}
			got++
		}
	}
	if got != len(want) {
		c.sayf("%d uses of drivers are counted, there are %d", got, len(want))
	}
	for s := range c.DriverSchemas() {
		if s.UnusedSince != 0 && c.DriverSchemaInUse(s) {
			c.sayf("driver schema %s is in use and marked as unused", s.Hash)
		}
	}
}

// job checks that the summary of a job counts its allocs and its children, and that
// the job is running exactly if an alloc is alive or it is a parent of other jobs.
func (c *checker) job(job *model.Job) {
	s := c.JobSummary(job.Namespace, job.ID)
	if s == nil {
		c.sayf("job %s has no summary", job.ID)
		return
	}
	groups, live := map[string]model.TaskGroupSummary{}, false
	for _, a := range c.AllocsByJob(job.Namespace, job.ID) {
		if !job.Owns(a) {
			continue // it belongs to a purged job with the same name
		}
		live = live || !a.TerminalStatus()
		g := groups[a.TaskGroup]
		count(&g, a.ClientStatus)
		groups[a.TaskGroup] = g
	}
	for name, g := range s.Summary {
		g.Queued = 0
		if g != groups[name] {
			c.sayf("job %s: group %s is summed up as %+v, its allocs are %+v", job.ID, name, g, groups[name])
		}
		delete(groups, name)
	}
	for name, g := range groups {
		c.sayf("job %s: its summary lacks group %s with %+v", job.ID, name, g)
	}
	var children model.JobChildrenSummary
	for _, child := range c.JobChildren(job.Namespace, job.ID) {
		switch child.Status {
		case model.JobStatusPending:
			children.Pending++
		case model.JobStatusRunning:
			children.Running++
		case model.JobStatusDead:
			children.Dead++
		}
	}
	if *s.Children != children {
		c.sayf("job %s: its children are summed up as %+v, they are %+v", job.ID, *s.Children, children)
	}
	template := !job.Stop && (job.IsPeriodic() || job.IsParameterized() || job.Type == model.JobTypeSystem)
	if (live || template) != (job.Status == model.JobStatusRunning) {
		c.sayf("job %s is %s; an alloc lives: %t, it is a template or runs everywhere: %t", job.ID, job.Status, live, template)
	}
}

func count(g *model.TaskGroupSummary, clientStatus string) {
	switch clientStatus {
	case model.AllocClientStatusPending:
		g.Starting++
	case model.AllocClientStatusRunning:
		g.Running++
	case model.AllocClientStatusComplete:
		g.Complete++
	case model.AllocClientStatusFailed:
		g.Failed++
	case model.AllocClientStatusLost:
		g.Lost++
	case model.AllocClientStatusUnknown:
		g.Unknown++
	}
}

// deployment checks that the counters of a deployment include its allocs. They may
// be higher: an alloc that moved to another deployment or was removed is still
// counted, and a deployment that has ended keeps its final counts.
func (c *checker) deployment(d *model.Deployment) {
	type counts struct{ placed, healthy, unhealthy int }
	groups := map[string]counts{}
	for _, a := range c.AllocsByDeployment(d.ID) {
		g := groups[a.TaskGroup]
		g.placed++
		if d.Active() && a.DeploymentStatus.IsHealthy() && !a.TerminalStatus() {
			g.healthy++
		}
		if d.Active() && a.DeploymentStatus.IsUnhealthy() {
			g.unhealthy++
		}
		groups[a.TaskGroup] = g
	}
	for name, want := range groups {
		g := d.TaskGroups[name]
		if g != nil && (g.PlacedAllocs < want.placed || g.HealthyAllocs < want.healthy || g.UnhealthyAllocs < want.unhealthy) {
			c.sayf("deployment %s: group %s counts %+v, its allocs are %+v", d.ID, name, *g, want)
		}
	}
}

// alloc checks that an alloc refers to its job's version without a copy of the job,
// and that it is linked with its successor.
func (c *checker) alloc(a *model.Allocation) {
	if a.Job != nil {
		c.sayf("alloc %s holds its job", a.ID)
	}
	if prev := c.AllocByID(a.PreviousAllocation); prev != nil && prev.NextAllocation == "" {
		c.sayf("alloc %s replaces %s, which has no successor", a.ID, prev.ID)
	}
	if next := c.AllocByID(a.NextAllocation); next != nil && next.PreviousAllocation != a.ID {
		c.sayf("alloc %s has successor %s, which replaces %q", a.ID, next.ID, next.PreviousAllocation)
	}
	if f := c.EvalByID(a.FollowupEvalID); f != nil && (f.Namespace != a.Namespace || f.JobID != a.JobID) {
		c.sayf("alloc %s of job %s has follow-up evaluation %s of job %s", a.ID, a.JobID, f.ID, f.JobID)
	}
}

// services checks that the registrations follow from the allocs.
func (c *checker) services() {
	want := 0
	for a := range c.Allocs() {
		for _, r := range services.Registrations(services.Input{Alloc: a, Job: c.JobOf(a), Node: c.NodeByID(a.NodeID)}) {
			want++
			if got := c.ServiceByID(r.Namespace, r.ID); got == nil || !got.SameAs(r) {
				c.sayf("service %s is registered as %+v, and its alloc says %+v", r.ID, got, r)
			}
		}
	}
	got := 0
	for range c.Services("") {
		got++
	}
	if got != want {
		c.sayf("%d services are registered, and allocs have %d", got, want)
	}
}

// eval checks that an evaluation and the one that continues it belong to the same
// job and are linked.
func (c *checker) eval(e *model.Evaluation) {
	for _, id := range []string{e.NextEval, e.BlockedEval} {
		if next := c.EvalByID(id); next != nil && (next.Namespace != e.Namespace || next.JobID != e.JobID || next.PreviousEval != e.ID) {
			c.sayf("evaluation %s of job %s is continued by %s of job %s, which continues %q", e.ID, e.JobID, id, next.JobID, next.PreviousEval)
		}
	}
}
