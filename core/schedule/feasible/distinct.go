// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"strconv"

	"github.com/drover-project/drover/core/model"
)

// Distinct holds the constraints of a group that depend on other allocs:
// distinct_hosts and distinct_property. It counts existing allocs; the scheduler
// reports each further placement to it.
type Distinct struct {
	hosts    bool // one alloc of the job or group per node
	jobHosts bool
	taken    map[string]int // node -> number of allocs in scope
	limits   []*propertyLimit
	region   string // of the job
	tg       string
}

type propertyLimit struct {
	constraint *model.Constraint
	limit      int
	used       map[string]int
	wholeJob   bool
}

// NewDistinct returns the Distinct of a group, or nil if it has no such constraints.
func NewDistinct(job *model.Job, tg *model.TaskGroup) *Distinct {
	d := &Distinct{taken: map[string]int{}, region: job.Region, tg: tg.Name}
	d.add(job.Constraints, true)
	d.add(tg.Constraints, false)
	for _, t := range tg.Tasks {
		d.add(t.Constraints, false)
	}
	if !d.hosts && len(d.limits) == 0 {
		return nil
	}
	return d
}

func (d *Distinct) add(cs []*model.Constraint, wholeJob bool) {
	for _, c := range cs {
		switch c.Operand {
		case model.ConstraintDistinctHosts:
			if on, err := strconv.ParseBool(c.RTarget); on || err != nil { // "" means true
				d.hosts, d.jobHosts = true, d.jobHosts || wholeJob
			}
		case model.ConstraintDistinctProperty:
			limit := 1
			if n, err := strconv.Atoi(c.RTarget); err == nil && n > 0 {
				limit = n
			}
			d.limits = append(d.limits, &propertyLimit{c, limit, map[string]int{}, wholeJob})
		}
	}
}

// Add counts an alloc of a group of the job on n (delta -1 removes it).
func (d *Distinct) Add(n *model.Node, group string, delta int) {
	if d == nil || n == nil {
		return
	}
	if d.jobHosts || group == d.tg {
		d.taken[n.ID] += delta
	}
	for _, l := range d.limits {
		if v, ok := Resolve(l.constraint.LTarget, d.region, n); ok && (l.wholeJob || group == d.tg) {
			l.used[v] += delta
		}
	}
}

// Check returns "" if another alloc of the group may be placed on n, otherwise the
// reason why not.
func (d *Distinct) Check(n *model.Node) string {
	if d == nil {
		return ""
	}
	if d.hosts && d.taken[n.ID] > 0 {
		return ReasonDistinctHosts
	}
	for _, l := range d.limits {
		v, ok := Resolve(l.constraint.LTarget, d.region, n)
		if !ok {
			return "missing property \"" + l.constraint.LTarget + "\""
		}
		if l.used[v] >= l.limit {
			return "distinct_property: " + l.constraint.LTarget + "=" + v + " used by " + strconv.Itoa(l.used[v]) + " allocs"
		}
	}
	return ""
}
