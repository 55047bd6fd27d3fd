// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/schedule/rank"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// ReasonHasOne is why a node takes no second alloc of a group of a system job.
const ReasonHasOne = "it has an alloc of the group already"

// maxExplained is how many open, and how many other nodes an explanation lists.
const maxExplained = 20

// Explain says, for the groups of a job, where one more alloc of each could run after what the
// scheduler would place now, why not on other nodes, and what would help the allocs that
// find no place. Without names it explains every group, up to maxGroups.
func Explain(view View, job *model.Job, now time.Time, ids IDSource, groups ...string) []*model.GroupExplanation {
	x := &explainer{view: view, job: job, now: now, ids: ids}
	p := x.process(job, nil)
	var out []*model.GroupExplanation
	for _, tg := range job.TaskGroups {
		if len(groups) > 0 && !slices.Contains(groups, tg.Name) || len(out) == maxGroups {
			continue
		}
		g := p.explain(tg)
		if g.Missing > 0 {
			g.Remedies = x.remedies(tg, g)
		}
		out = append(out, g)
	}
	return out
}

// maxGroups is how many groups one explanation has.
const maxGroups = 50

// explainer runs the scheduler on a view as if things were different.
type explainer struct {
	view View
	job  *model.Job
	now  time.Time
	ids  IDSource
	runs int
	work int // nodes, once for each group, and allocs that the runs have gone through
}

// enough reports whether the runs have used up what one explanation may cost.
func (x *explainer) enough() bool { return x.runs >= maxRuns || x.work >= maxWork }

// process runs the scheduler with another form of the job, and other nodes.
func (x *explainer) process(job *model.Job, nodes map[string]*model.Node) *process {
	x.runs++
	eval := model.NewEvaluation("", model.EvalTriggerJobRegister, job, x.now)
	p := newProcess(&Altered{View: x.view, Job: job, Nodes: nodes}, eval, x.now, x.ids)
	p.run()
	x.work += len(job.TaskGroups)*(len(p.cluster.nodes)+groupWork) + len(p.plan.Place) + len(p.plan.Change)
	for _, queued := range p.out.QueuedAllocations {
		x.work += queued
	}
	return p
}

// Verdict says what a group of a job can expect of one node; nil if the job has no such group
// or there is no such node.
func Verdict(view View, job *model.Job, group, nodeID string, now time.Time, ids IDSource) *model.NodeExplanation {
	n, tg := view.NodeByID(nodeID), job.LookupTaskGroup(group)
	if n == nil || tg == nil {
		return nil
	}
	p := (&explainer{view: view, job: job, now: now, ids: ids}).process(job, nil)
	pl := p.newPlacer(job, tg)
	pl.name = pl.nextName()
	return pl.verdict(n, false)
}

// nextName returns the name of the first alloc that the group lacks, or that one more would
// have: volumes with per_alloc depend on it.
func (pl *placer) nextName() string {
	taken := map[string]bool{}
	for a := range pl.remaining() {
		taken[a.Name] = true
	}
	for i := 0; ; i++ {
		if name := model.AllocName(pl.job.ID, pl.tg.Name, i); !taken[name] {
			return name
		}
	}
}

// waitsToBeReplaced reports whether the plan leaves an alloc of an older version as it is.
func (p *process) waitsToBeReplaced(a *model.Allocation) bool {
	return !a.TerminalStatus() && !p.cluster.gone[a.NodeID][a.ID] && a.JobVersion != p.job.Version &&
		!reconcile.SameRuntime(p.view.JobByVersion(a.Namespace, a.JobID, a.JobVersion), p.job, a.TaskGroup)
}

// verdictInstead says why a node cannot run the newest version of a group of a system job instead of the alloc that it
// has; e if it can, so that the alloc only waits for its turn.
func (pl *placer) verdictInstead(n *model.Node, old *model.Allocation, e *model.NodeExplanation) *model.NodeExplanation {
	pl.cluster.release(old)
	pl.distinct.Add(n, pl.tg.Name, -1)
	instead := pl.verdict(n, false)
	pl.distinct.Add(n, pl.tg.Name, 1)
	pl.cluster.restore(old)
	if instead.Refused == "" {
		return e
	}
	return instead
}

// keepsNode reports whether an alloc of a system job that has ended keeps others of its group from its node: it is
// done, or has failed, and only a new version replaces it.
func (p *process) keepsNode(a *model.Allocation) bool {
	return a.ClientTerminalStatus() && !a.ServerTerminalStatus() && a.NextAllocation == "" && a.JobVersion == p.job.Version && !p.cluster.gone[a.NodeID][a.ID]
}

// there returns how many allocs the group has after the plan; those that a batch job need not repeat count.
func (pl *placer) there() (n int) {
	for a := range pl.remaining() {
		if a.TaskGroup == pl.tg.Name {
			n++
		}
	}
	if pl.job.Type != model.JobTypeBatch {
		return n
	}
	for _, a := range pl.view.AllocsByJob(pl.job.Namespace, pl.job.ID) {
		if a.TaskGroup == pl.tg.Name && a.ClientStatus == model.AllocClientStatusComplete {
			n++
		}
	}
	return n
}

// explain explains one group after the plan.
func (p *process) explain(tg *model.TaskGroup) *model.GroupExplanation {
	pl := p.newPlacer(p.job, tg)
	pl.name = pl.nextName()
	g := &model.GroupExplanation{Group: tg.Name, Missing: p.out.QueuedAllocations[tg.Name]}
	if h := p.out.Held[tg.Name]; h != nil {
		g.Held, g.Missing = h.Allocs, max(0, g.Missing-h.Allocs)
	}
	has, outdated := map[string]bool{}, map[string]*model.Allocation{}
	if p.system() {
		for a := range pl.remaining() {
			has[a.NodeID] = has[a.NodeID] || a.TaskGroup == tg.Name
		}
		for _, a := range p.view.AllocsByJob(p.job.Namespace, p.job.ID) {
			switch {
			case a.TaskGroup != tg.Name:
			case p.waitsToBeReplaced(a):
				outdated[a.NodeID] = a
			case !has[a.NodeID] && p.keepsNode(a):
				has[a.NodeID] = true
				if a.ClientStatus == model.AllocClientStatusFailed {
					g.Absent++
				}
			}
		}
	} else {
		g.Absent = max(0, tg.Count-pl.there()-g.Missing-g.Held)
	}
	classes := map[string]*model.ClassExplanation{}
	for n := range p.view.NodesWithUse() {
		e := pl.verdict(n, has[n.ID])
		if old := outdated[n.ID]; old != nil && e.Refused == ReasonHasOne {
			e = pl.verdictInstead(n, old, e)
		}
		c := classes[n.NodeClass]
		if c == nil {
			c = &model.ClassExplanation{Class: n.NodeClass, Refused: map[string]int{}}
			classes[n.NodeClass] = c
		}
		c.Nodes++
		g.Nodes++
		if e.Refused == "" {
			c.Open++
			g.Open++
			g.Best = append(g.Best, e)
		} else {
			c.Refused[e.Refused]++
			g.Refused = append(g.Refused, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		g.Classes = append(g.Classes, classes[name])
	}
	slices.SortStableFunc(g.Best, func(a, b *model.NodeExplanation) int { return cmp.Compare(b.Score, a.Score) })
	slices.SortStableFunc(g.Refused, func(a, b *model.NodeExplanation) int { return cmp.Compare(distance(a), distance(b)) })
	g.Best, g.Refused = g.Best[:min(len(g.Best), maxExplained)], g.Refused[:min(len(g.Refused), maxExplained)]
	return g
}

// distance orders refused nodes: those that lack the smallest share of what is asked come
// first, then those with another reason.
func distance(e *model.NodeExplanation) float64 {
	if len(e.Lacks) == 0 {
		return 100
	}
	sum := 0.0
	for _, l := range e.Lacks {
		sum += float64(l.Needs-max(l.Free, 0)) / float64(max(l.Needs, 1))
	}
	return sum
}

// verdict says whether a node could take one more alloc of the group.
func (pl *placer) verdict(n *model.Node, has bool) *model.NodeExplanation {
	e := &model.NodeExplanation{ID: n.ID, Name: n.Name, Class: n.NodeClass, Datacenter: n.Datacenter, NodePool: n.NodePool}
	row, in := pl.cluster.row(n.ID)
	switch {
	case !in:
		e.Refused = outside(n, pl.job)
	case has:
		e.Refused = ReasonHasOne
	default:
		if e.Refused = cmp.Or(pl.chk.Check(n), pl.distinct.Check(n)); e.Refused == "" {
			pl.room(row, e)
		}
	}
	return e
}

// outside says why a node is not among those that a job may use.
func outside(n *model.Node, job *model.Job) string {
	switch {
	case n.Status != model.NodeStatusReady:
		return "node is " + n.Status
	case n.DrainStrategy != nil:
		return "node is draining"
	case n.SchedulingEligibility != model.NodeSchedulingEligible:
		return "node is not eligible"
	case !feasible.InPool(n.NodePool, job.NodePool):
		return fmt.Sprintf("node pool is %q, the job's is %q", n.NodePool, job.NodePool)
	}
	return fmt.Sprintf("datacenter %q is not one of %s", n.Datacenter, strings.Join(job.Datacenters, ", "))
}

// room explains the room on a row: what is too little there, or how it is scored.
func (pl *placer) room(row int, e *model.NodeExplanation) {
	a, c := ask(pl.shared), pl.cluster.cols
	lack := func(name string, needs, free int64) {
		if needs > free {
			e.Lacks = append(e.Lacks, model.Lack{Resource: name, Needs: needs, Free: free})
		}
	}
	lack("cpu", a.CPU, c.CapCPU[row]-c.UsedCPU[row])
	lack("memory", a.Memory, c.CapMemory[row]-c.UsedMemory[row])
	lack("disk", a.Disk, c.CapDisk[row]-c.UsedDisk[row])
	if len(e.Lacks) > 0 {
		var names []string
		for _, l := range e.Lacks {
			names = append(names, l.Resource)
		}
		e.Refused = "too little " + strings.Join(names, " and ")
		return
	}
	if _, why := pl.resources(row, ""); why != "" {
		e.Refused = "lacking: " + why
		for _, d := range devicesOf(pl.tg) {
			lack(d.Name, int64(d.Count), pl.chk.DevicesFree(pl.cluster.usage(row), pl.cluster.nodes[row], d))
		}
		return
	}
	e.Parts = Weighted(pl.picker.Explain(row))
	for _, part := range e.Parts {
		e.Score += part.Score * part.Weight
	}
}

// devicesOf returns the devices that the tasks of a group ask for.
func devicesOf(tg *model.TaskGroup) (out []*model.RequestedDevice) {
	for _, t := range tg.Tasks {
		if t.Resources != nil {
			out = append(out, t.Resources.Devices...)
		}
	}
	return out
}

// Weighted returns the parts of a score that apply, in a fixed order, with their weights.
func Weighted(parts map[string]float64) (out []model.ScorePart) {
	for _, name := range []string{rank.PartBinpack, rank.PartAntiAffinity, rank.PartPenalty, rank.PartAffinity, rank.PartSpread} {
		score, has := parts[name]
		if has && (score != 0 || name == rank.PartBinpack || name == rank.PartSpread) {
			out = append(out, model.ScorePart{Name: name, Score: score})
		}
	}
	for i := range out {
		out[i].Weight = 1 / float64(len(out))
	}
	return out
}
