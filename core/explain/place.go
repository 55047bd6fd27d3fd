// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// Alloc explains why an alloc is where it is, and what becomes of it.
func (o Of) Alloc(a *model.Allocation) *model.Explanation {
	out := &model.Explanation{ID: a.ID}
	say := func(format string, args ...any) { out.Says = append(out.Says, fmt.Sprintf(format, args...)) }
	say("Evaluation %s placed or last changed it. It is on node %s (%s) since %s.", short(a.EvalID), a.NodeName, short(a.NodeID), at(time.Unix(0, a.CreateTime)))
	if m := a.Metrics; m != nil {
		say("%s", considered(m))
		for _, s := range m.ScoreMetaData {
			say("Node %s was the best with a score of %.3f: %s.", short(s.NodeID), s.NormScore, parts(schedule.Weighted(s.Scores)))
		}
	}
	if a.PreviousAllocation != "" {
		say("It replaces allocation %s.", short(a.PreviousAllocation))
	}
	if len(a.PreemptedAllocations) > 0 {
		say("It took the place of %d less important allocations.", len(a.PreemptedAllocations))
	}
	out.Says = append(out.Says, o.fate(a)...)
	return out
}

// considered says how many nodes were considered for a placement.
func considered(m *model.AllocMetric) string {
	line := fmt.Sprintf("%d nodes were considered", m.NodesEvaluated)
	list := func(counts map[string]int) string {
		var words []string
		for _, why := range slices.Sorted(maps.Keys(counts)) {
			words = append(words, fmt.Sprintf("%s (%d)", why, counts[why]))
		}
		return strings.Join(words, ", ")
	}
	if m.NodesFiltered > 0 {
		line += fmt.Sprintf("; %d could not run it: %s", m.NodesFiltered, list(m.ConstraintFiltered))
	}
	if m.NodesExhausted > 0 {
		line += fmt.Sprintf("; %d had no room: %s", m.NodesExhausted, list(m.DimensionExhausted))
	}
	return line + "."
}

// parts writes a score as the sum of its weighted parts.
func parts(list []model.ScorePart) string {
	var words []string
	for _, p := range list {
		words = append(words, fmt.Sprintf("%s %.3f x %.2f", p.Name, p.Score, p.Weight))
	}
	return strings.Join(words, " + ")
}

// fate says what state an alloc is in because of servers, and what comes next.
func (o Of) fate(a *model.Allocation) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case a.ServerTerminalStatus():
		say("Servers have it end: %s.", cmp.Or(a.DesiredDescription, a.DesiredStatus))
		if !a.ClientTerminalStatus() {
			say("Its node has not said yet that it has ended; its resources stay taken until then.")
		}
	case a.ClientStatus == model.AllocClientStatusUnknown:
		say("Nothing was heard of it since %s, because its node is out of reach.", at(a.UnknownSince()))
	case a.ClientStatus == model.AllocClientStatusPending:
		say("Its node has not started its tasks yet: drover alloc status %s shows which step they are in.", short(a.ID))
	case a.DeploymentStatus.IsUnhealthy() && !a.ClientTerminalStatus():
		say("It runs, and is unhealthy in deployment %s.", short(a.DeploymentID))
	}
	out = append(out, o.tasks(a)...)
	if a.NextAllocation != "" {
		say("Allocation %s has replaced it.", short(a.NextAllocation))
		return out
	}
	job := o.View.JobByID(a.Namespace, a.JobID)
	if job != nil && job.Version != a.JobVersion && !a.ServerTerminalStatus() {
		if h := reconcile.Holds(o.View, job, o.Now)[a.TaskGroup]; h != nil {
			say("It runs on in version %d, because version %d %s.", a.JobVersion, job.Version, h.Say(o.Now))
		}
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	if a.ServerTerminalStatus() || tg == nil || a.ClientStatus != model.AllocClientStatusFailed && !a.DeploymentStatus.IsUnhealthy() {
		return out
	}
	if why := reconcile.Irreplaceable(job, a); why != "" {
		say("Nothing replaces it: %s.", why)
		return out
	}
	next, _ := reconcile.NextReschedule(tg.ReschedulePolicy, a)
	say("It is replaced at %s, as its reschedule block says.", at(next))
	return out
}

// maxWaiting is how many waiting groups the explanation of a node tries on it.
const maxWaiting = 10

// Node explains what a node has left, and why work that waits does not run there.
func (o Of) Node(n *model.Node) *model.Explanation {
	out := &model.Explanation{ID: n.ID}
	say := func(format string, args ...any) { out.Says = append(out.Says, fmt.Sprintf(format, args...)) }
	switch {
	case n.Ready():
		say("It takes allocations.")
	case n.DrainStrategy != nil:
		say("It takes no allocations: it is draining.")
	case n.Status != model.NodeStatusReady:
		say("It takes no allocations: it is %s. %s", n.Status, n.StatusDescription)
	default:
		say("It takes no allocations: it is not eligible (drover node eligibility -enable %s).", short(n.ID))
	}
	c := n.Capacity()
	cpu, memory, disk := o.View.NodeUsed(n.ID)
	for _, r := range []struct {
		what       string
		used, have int64
		unit       string
	}{{"cpu", cpu, c.CPU, "MHz"}, {"memory", memory, c.MemoryMB, "MB"}, {"disk", disk, c.DiskMB, "MB"}} {
		say("%s: %d of %d %s are taken, %d are free.", r.what, r.used, r.have, r.unit, r.have-r.used)
	}
	held, waiting := len(feasible.Holders(o.View, n.ID, nil)), 0
	if n.NodeMaxAllocs > 0 {
		say("It has %d of at most %d allocations.", held, n.NodeMaxAllocs)
	} else {
		say("It has %d allocations.", held)
	}
	for _, a := range o.View.AllocsByNode(n.ID) {
		for _, line := range o.tasks(a) {
			if waiting++; waiting <= maxWaiting {
				say("Allocation %s here: %s", short(a.ID), line)
			}
		}
	}
	tried := 0
	for e := range o.View.Evals() {
		job := o.View.JobByID(e.Namespace, e.JobID)
		if e.Status != model.EvalStatusBlocked || job == nil || job.Stop {
			continue
		}
		if len(e.Held) > 0 {
			if tried++; tried > maxWaiting {
				say("More evaluations wait.")
				return out
			}
			say("Not for this node, but for dependencies, waits job %q: %s", job.ID, strings.Join(o.heldNow(e), " "))
		}
		for _, group := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
			if tried++; tried > maxWaiting {
				say("More evaluations wait for room.")
				return out
			}
			say("Group %q of job %q waits for room; here: %s.", group, job.ID, o.here(job, group, n.ID))
		}
	}
	return out
}

// here says why a group finds no place on a node.
func (o Of) here(job *model.Job, group, node string) string {
	v := schedule.Verdict(o.View, job, group, node, o.Now, o.IDs)
	if v == nil {
		return "the job has no such group any more"
	}
	words := []string{cmp.Or(v.Refused, "there is room")}
	for _, l := range v.Lacks {
		words = append(words, fmt.Sprintf("%s %d asked, %d free", l.Resource, l.Needs, l.Free))
	}
	return strings.Join(words, ", ")
}
