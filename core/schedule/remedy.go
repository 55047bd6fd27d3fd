// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// maxRuns bounds how often one explanation runs the scheduler, and maxWork through how many
// nodes and allocs the runs go together. Every group goes through the nodes, and costs as much
// as groupWork nodes besides.
const (
	maxRuns   = 150
	maxWork   = 2_000_000
	groupWork = 50
)

// maxAlternatives is how many nodes, datacenters or pools are tried one by one.
const maxAlternatives = 8

// remedies finds single changes with which more of the group's allocs would find a place.
// Each was tried: the scheduler has run on a view with the change.
func (x *explainer) remedies(tg *model.TaskGroup, g *model.GroupExplanation) []*model.Remedy {
	r := &remedy{explainer: x, tg: tg, missing: g.Missing}
	r.nodes()
	r.resources(g)
	r.constraints()
	r.places()
	r.count()
	slices.SortStableFunc(r.found, func(a, b *model.Remedy) int { return a.Missing - b.Missing })
	return r.found
}

type remedy struct {
	*explainer
	tg      *model.TaskGroup
	missing int
	found   []*model.Remedy
}

// altered returns the job with a changed group, or with other changes of its own.
func (r *remedy) altered(edit func(*model.Job, *model.TaskGroup)) *model.Job {
	j := *r.job
	j.TaskGroups = slices.Clone(j.TaskGroups)
	i := slices.Index(j.TaskGroups, r.tg)
	j.TaskGroups[i] = r.tg.Copy()
	edit(&j, j.TaskGroups[i])
	return &j
}

// left returns how many allocs of the group find no place with an altered job; nothing is
// gained once the bounds are reached.
func (r *remedy) left(edit func(*model.Job, *model.TaskGroup)) int {
	if r.enough() {
		return r.missing
	}
	return r.process(r.altered(edit), nil).out.QueuedAllocations[r.tg.Name]
}

func (r *remedy) note(left int, format string, args ...any) {
	if left < r.missing {
		r.found = append(r.found, &model.Remedy{Change: fmt.Sprintf(format, args...), Missing: left})
	}
}

// nodes tries nodes that take no allocs because an operator wants that.
func (r *remedy) nodes() {
	tried := 0
	for n := range r.view.NodesWithUse() {
		if n.Ready() || n.Status != model.NodeStatusReady {
			continue
		}
		if tried++; tried > maxAlternatives || r.enough() {
			return
		}
		c := n.Copy()
		c.DrainStrategy, c.SchedulingEligibility = nil, model.NodeSchedulingEligible
		left := r.process(r.job, map[string]*model.Node{n.ID: c}).out.QueuedAllocations[r.tg.Name]
		r.note(left, "make node %s (%s) eligible", n.Name, n.ID[:min(8, len(n.ID))])
	}
}

// amount is one number of the group that says how much an alloc asks for.
type amount struct {
	what  string
	has   int
	least int
	set   func(tg *model.TaskGroup, to int)
}

// amounts returns what may be lowered to fit where a resource is too little: of the tasks, the
// one that asks for most.
func (r *remedy) amounts(lacking map[string]bool) (out []amount) {
	task := func(what string, least int, of func(*model.Resources) *int) {
		most := -1
		for i, t := range r.tg.Tasks {
			if t.Resources != nil && (most < 0 || *of(t.Resources) > *of(r.tg.Tasks[most].Resources)) {
				most = i
			}
		}
		if most >= 0 && *of(r.tg.Tasks[most].Resources) > least {
			out = append(out, amount{
				what: fmt.Sprintf("%s of task %q", what, r.tg.Tasks[most].Name), has: *of(r.tg.Tasks[most].Resources), least: least,
				set: func(tg *model.TaskGroup, to int) { *of(tg.Tasks[most].Resources) = to },
			})
		}
	}
	if lacking["cpu"] {
		task("cpu", 1, func(r *model.Resources) *int { return &r.CPU })
	}
	if lacking["cpu"] || lacking["cores"] {
		task("cores", 1, func(r *model.Resources) *int { return &r.Cores })
	}
	if lacking["memory"] {
		task("memory", model.MinMemoryMB, func(r *model.Resources) *int { return &r.MemoryMB })
	}
	if d, least := r.tg.EphemeralDisk, leastDisk(r.tg); lacking["disk"] && d != nil && d.SizeMB > least {
		out = append(out, amount{"size of ephemeral_disk", d.SizeMB, least, func(tg *model.TaskGroup, to int) { tg.EphemeralDisk.SizeMB = to }})
	}
	return out
}

// leastDisk is the smallest disk with which the group is a valid one: it must hold the logs of each task.
func leastDisk(tg *model.TaskGroup) int {
	least := 1
	for _, t := range tg.Tasks {
		if l := t.LogConfig; l != nil && !l.Disabled {
			least = max(least, l.MaxFiles*l.MaxFileSizeMB)
		}
	}
	return least
}

// resources looks for the smallest cut of one amount, or of all together if none alone
// suffices.
func (r *remedy) resources(g *model.GroupExplanation) {
	lacking := map[string]bool{}
	for _, n := range g.Refused {
		for _, l := range n.Lacks {
			lacking[l.Resource] = true
		}
		lacking["cores"] = lacking["cores"] || strings.HasSuffix(n.Refused, ": cores")
	}
	amounts := r.amounts(lacking)
	before := len(r.found)
	for _, a := range amounts {
		// cut lowers the amount to have-by.
		cut := func(by int) int {
			return r.left(func(_ *model.Job, tg *model.TaskGroup) { a.set(tg, a.has-by) })
		}
		if by, left := r.smallest(a.has-a.least, cut); by > 0 {
			r.note(left, "%s: %d instead of %d", a.what, a.has-by, a.has)
		}
	}
	if len(r.found) > before || len(amounts) < 2 {
		return
	}
	to := func(a amount, percent int) int { return max(a.least, a.has-a.has*percent/100) }
	cut := func(percent int) int {
		return r.left(func(_ *model.Job, tg *model.TaskGroup) {
			for _, a := range amounts {
				a.set(tg, to(a, percent))
			}
		})
	}
	percent, left := r.smallest(99, cut)
	if percent == 0 {
		return
	}
	values := make([]int, len(amounts))
	for i, a := range amounts {
		values[i] = to(a, percent)
	}
	var words []string
	for i, a := range r.relaxed(amounts, values, left) {
		if a != amounts[i].has {
			words = append(words, fmt.Sprintf("%s: %d instead of %d", amounts[i].what, a, amounts[i].has))
		}
	}
	r.note(left, "%s", strings.Join(words, ", and "))
}

// relaxed takes back what is not needed of cuts that only help together: one amount after the other becomes as
// large as it may be while not more than left allocs are missing.
func (r *remedy) relaxed(amounts []amount, values []int, left int) []int {
	for i, a := range amounts {
		with := func(value int) int {
			return r.left(func(_ *model.Job, tg *model.TaskGroup) {
				for k, a := range amounts {
					a.set(tg, values[k])
				}
				a.set(tg, value)
			})
		}
		if with(a.has) <= left {
			values[i] = a.has
			continue
		}
		largest := values[i]
		sort.Search(a.has-values[i]-1, func(k int) bool {
			helps := with(a.has-1-k) <= left
			if helps {
				largest = max(largest, a.has-1-k)
			}
			return helps
		})
		values[i] = largest
	}
	return values
}

// smallest returns the smallest cut that helps as much as the largest, and what is left then;
// 0 if even that one does not help.
func (r *remedy) smallest(largest int, cut func(by int) int) (by, left int) {
	if largest <= 0 {
		return 0, r.missing
	}
	left = cut(largest)
	if left >= r.missing {
		return 0, r.missing
	}
	by = largest
	sort.Search(largest, func(i int) bool { // the result is the smallest that was tried and helped
		helps := cut(i+1) <= left
		if helps {
			by = min(by, i+1)
		}
		return helps
	})
	return by, left
}

// constraints tries to do without each constraint.
func (r *remedy) constraints() {
	try := func(whose string, cs []*model.Constraint, of func(*model.Job, *model.TaskGroup) *[]*model.Constraint) {
		for i, c := range cs {
			left := r.left(func(j *model.Job, tg *model.TaskGroup) {
				list := of(j, tg)
				*list = slices.Delete(slices.Clone(*list), i, i+1)
			})
			r.note(left, "without the constraint %s of %s", strings.TrimSpace(c.String()), whose)
		}
	}
	try("the job", r.job.Constraints, func(j *model.Job, _ *model.TaskGroup) *[]*model.Constraint { return &j.Constraints })
	try("the group", r.tg.Constraints, func(_ *model.Job, tg *model.TaskGroup) *[]*model.Constraint { return &tg.Constraints })
	for i, t := range r.tg.Tasks {
		try(fmt.Sprintf("task %q", t.Name), t.Constraints, func(_ *model.Job, tg *model.TaskGroup) *[]*model.Constraint { return &tg.Tasks[i].Constraints })
	}
}

// places tries other datacenters and node pools.
func (r *remedy) places() {
	datacenters, pools := map[string]bool{}, map[string]bool{}
	for n := range r.view.NodesWithUse() {
		if !n.Ready() {
			continue
		}
		if !feasible.InPool(n.NodePool, r.job.NodePool) {
			pools[n.NodePool] = true
		} else if !feasible.InDatacenters(n.Datacenter, r.job.Datacenters) {
			datacenters[n.Datacenter] = true
		}
	}
	for _, dc := range first(datacenters) {
		r.note(r.left(func(j *model.Job, _ *model.TaskGroup) { j.Datacenters = append(slices.Clone(j.Datacenters), dc) }), "datacenters: %s too", dc)
	}
	for _, pool := range first(pools) {
		// Allocs that run in the former pool move too: what counts is what is missing at the end
		// of the roll-out of the new version.
		left := r.left(func(j *model.Job, tg *model.TaskGroup) {
			j.NodePool, tg.Update = pool, nil
			j.Version++
		})
		r.note(left, "node_pool: %s instead of %s", pool, r.job.NodePool)
	}
}

func first(set map[string]bool) []string {
	names := slices.Sorted(maps.Keys(set))
	return names[:min(len(names), maxAlternatives)]
}

// count tries the count that fits.
func (r *remedy) count() {
	fits := r.tg.Count - r.missing
	if s := r.tg.Scaling; s != nil && int64(fits) < s.Min {
		return // such a job is refused
	}
	if fits <= 0 || r.job.Type == model.JobTypeSystem || r.job.Type == model.JobTypeSysBatch {
		return
	}
	r.note(r.left(func(_ *model.Job, tg *model.TaskGroup) { tg.Count = fits }), "count: %d instead of %d", fits, r.tg.Count)
}
