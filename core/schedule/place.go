// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/schedule/rank"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// placer places the allocs of one group of one version of the job.
type placer struct {
	*process
	job       *model.Job
	tg        *model.TaskGroup
	chk       *feasible.Checker
	distinct  *feasible.Distinct
	shared    *model.AllocatedResources // resources of every alloc, unless each has its own
	exclusive bool
	over      bool // memory oversubscription
	picker    *rank.Picker
	metric    model.AllocMetric // filter counts of all placements of the group
	dropped   map[int]bool      // rows that distinct constraints exclude
	crowded   []int             // rows that distinct constraints may exclude
	freed     bool              // an alloc was removed: rows in dropped may be allowed again
	exhausted map[int]string    // rows that lack ports, cores, devices or volumes
	name      string            // of the alloc that is being placed
	previous  string            // id of the alloc that it replaces, or ""
	failed    *model.AllocMetric
	second    *secondRound // nil unless it has begun
}

// place finds nodes for the placements, group by group.
func (p *process) place(ps []reconcile.Placement) {
	p.plan.Place, p.due = slices.Grow(p.plan.Place, len(ps)), len(ps)
	for len(ps) > 0 {
		n := 1
		for n < len(ps) && ps[n].Group == ps[0].Group {
			n++
		}
		if p.system() {
			p.placeSystem(ps[:n])
		} else {
			pl := p.newPlacer(ps[0].Job, ps[0].Group)
			for i := range ps[:n] {
				pl.placeOne(&ps[i])
			}
			pl.endSecondRound()
		}
		ps = ps[n:]
	}
}

func (p *process) newPlacer(job *model.Job, tg *model.TaskGroup) *placer {
	pl := &placer{
		process: p, job: job, tg: tg, chk: p.checker(job, tg), distinct: feasible.NewDistinct(job, tg),
		exclusive: feasible.Exclusive(tg), dropped: map[int]bool{}, exhausted: map[int]string{},
	}
	rules := p.scheduling(job)
	spreading := rules.SchedulerAlgorithm == model.SchedulerAlgorithmSpread
	pl.over = rules.MemoryOversubscription
	pl.shared = feasible.Ask(tg, pl.slowest(), pl.over)
	collisions := pl.neighbours()
	rows := pl.filter()
	options := rank.Options{
		Ask: ask(pl.shared), Desired: tg.Count, Spreading: spreading, Rows: rows,
		Affinity: pl.affinities(rows), Collisions: collisions, Spreads: pl.spreads(rows),
	}
	if !pl.spreadsEscape() {
		options.Kind = p.cluster.kinds
	}
	pl.picker = rank.NewPicker(p.cluster.cols, options)
	p.pickers = append(p.pickers, pl.picker)
	return pl
}

// scheduling returns the scheduler configuration that holds for a job.
func (p *process) scheduling(job *model.Job) model.Scheduling {
	return model.SchedulingOf(p.view.SchedulerConfig(), p.view.NodePoolByName(job.NodePool), p.view.NamespaceByName(job.Namespace))
}

// slowest returns the node with the slowest cores, on which a request for whole cores
// is smallest.
func (pl *placer) slowest() *model.Node {
	var out *model.Node
	for _, n := range pl.cluster.nodes {
		if !pl.exclusive {
			return n // the request does not depend on the node
		}
		if out == nil || feasible.CoreShares(n) < feasible.CoreShares(out) {
			out = n
		}
	}
	return out
}

// neighbours counts the group's allocs per row and reports them to the distinct
// constraints.
func (pl *placer) neighbours() []int32 {
	out := rank.Indexes(len(pl.cluster.nodes))
	for a := range pl.remaining() {
		pl.distinct.Add(pl.view.NodeByID(a.NodeID), a.TaskGroup, 1)
		if row, ok := pl.cluster.row(a.NodeID); ok && a.TaskGroup == pl.tg.Name {
			out[row]++
		}
	}
	return out
}

// remaining yields the job's allocs that will run after the plan so far, including
// those that it places.
func (pl *placer) remaining() func(func(*model.Allocation) bool) {
	return func(yield func(*model.Allocation) bool) {
		for _, a := range pl.view.AllocsByJob(pl.job.Namespace, pl.job.ID) {
			if !a.TerminalStatus() && !pl.cluster.gone[a.NodeID][a.ID] && !yield(a) {
				return
			}
		}
		for _, as := range pl.cluster.placed {
			for _, a := range as {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// filter returns the feasible rows and counts why the others are not feasible.
func (pl *placer) filter() []int32 {
	m := &pl.metric
	m.NodesEvaluated, m.NodesInPool = len(pl.cluster.nodes), pl.cluster.inPool
	m.NodePool, m.NodesAvailable = pl.job.NodePool, pl.cluster.available
	rows := rank.Indexes(len(pl.cluster.nodes))[:0]
	verdicts, perNode := perKind[verdict](pl.cluster), pl.chk.PerNode()
	for i, n := range pl.cluster.nodes {
		v := &verdicts[pl.cluster.kinds[i]]
		if !v.known || perNode {
			v.known, v.why = true, pl.chk.Check(n)
		}
		switch {
		case v.why == "":
			rows = append(rows, int32(i))
			if pl.distinct.Check(n) != "" {
				pl.crowded = append(pl.crowded, i) // destructive updates may allow it again
			}
		case perNode:
			filtered(m, n.NodeClass, v.why, 1)
		default:
			v.nodes++
		}
	}
	for kind := range verdicts {
		if v := &verdicts[kind]; v.nodes > 0 {
			filtered(m, pl.cluster.fleet.Kinds[kind].Class, v.why, v.nodes)
		}
	}
	return rows
}

// verdict is why nodes of a kind are not feasible, "" if they are.
type verdict struct {
	why   string
	nodes int // how many are not
	known bool
}

// perKind returns an array with room for each kind of nodes.
func perKind[T any](c *cluster) []T { return make([]T, len(c.fleet.Kinds)) }

// filtered counts nodes of a class that are not feasible.
func filtered(m *model.AllocMetric, class, why string, nodes int) {
	m.NodesFiltered += nodes
	bump(&m.ConstraintFiltered, why, nodes)
	if class != "" {
		bump(&m.ClassFiltered, class, nodes)
	}
}

func bump(m *map[string]int, key string, by int) {
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[key] += by
}

func (pl *placer) affinities(rows []int32) []float64 {
	as := append(append([]*model.Affinity(nil), pl.job.Affinities...), pl.tg.Affinities...)
	for _, t := range pl.tg.Tasks {
		as = append(as, t.Affinities...)
	}
	if len(as) == 0 {
		return nil
	}
	perNode := slices.ContainsFunc(as, func(a *model.Affinity) bool { return feasible.Escapes(a.LTarget) || feasible.Escapes(a.RTarget) })
	scores := perKind[struct {
		score float64
		known bool
	}](pl.cluster)
	out := make([]float64, len(pl.cluster.nodes))
	for _, r := range rows {
		s := &scores[pl.cluster.kinds[r]]
		if !s.known || perNode {
			s.known, s.score = true, pl.chk.Affinity(as, pl.cluster.nodes[r])
		}
		out[r] = s.score
	}
	return out
}

// placeOne finds a node for one placement and adds the new alloc to the plan.
func (pl *placer) placeOne(p *reconcile.Placement) {
	if pl.failed != nil && !p.Update && !pl.chk.Named() {
		pl.fail()
		return
	}
	pl.placing(p)
	releasedRow, released := -1, false
	if p.Update {
		if releasedRow, released = pl.cluster.release(p.Previous); released {
			pl.picker.Leave(releasedRow, -1)
			pl.retry(releasedRow)
			pl.changed(releasedRow)
		}
		pl.distinct.Add(pl.view.NodeByID(p.Previous.NodeID), pl.tg.Name, -1)
		pl.freed = true
	}
	pl.syncDropped()
	if p.Reschedule {
		for _, row := range pl.penalised(p.Previous) {
			pl.picker.Penalise(row, true)
			defer pl.picker.Penalise(row, false) // after the placement is explained
		}
	}
	row, score, res, id := pl.choose(p)
	if row < 0 {
		if p.Update {
			pl.cluster.restore(p.Previous)
			pl.distinct.Add(pl.view.NodeByID(p.Previous.NodeID), pl.tg.Name, 1)
		}
		if released {
			pl.picker.Leave(releasedRow, 1)
			pl.crowded = append(pl.crowded, releasedRow)
		}
		pl.fail()
		return
	}
	made := pl.success(row, score)
	pl.take(row, res)
	pl.commit(p, row, id, res, made)
	pl.changed(row)
}

// retry makes a row eligible again that lacked ports, cores or devices.
func (pl *placer) retry(row int) {
	if _, ok := pl.exhausted[row]; ok {
		delete(pl.exhausted, row)
		pl.picker.Restore(row)
	}
}

// syncDropped removes and restores rows according to the distinct constraints.
func (pl *placer) syncDropped() {
	if pl.distinct == nil {
		return
	}
	if pl.freed {
		for row := range pl.dropped {
			if pl.distinct.Check(pl.cluster.nodes[row]) == "" {
				delete(pl.dropped, row)
				pl.picker.Restore(row)
				pl.changed(row)
			}
		}
		pl.freed = false
	}
	for _, row := range pl.crowded {
		if pl.distinct.Check(pl.cluster.nodes[row]) != "" {
			pl.picker.Drop(row)
			pl.dropped[row] = true
		}
	}
	pl.crowded = pl.crowded[:0]
}

// choose returns the best row that has room for the alloc, or -1.
func (pl *placer) choose(p *reconcile.Placement) (int, float64, *model.AllocatedResources, string) {
	id := pl.ids.NewID()
	if pl.chk.Named() {
		return pl.chooseNamed(p, id)
	}
	if row := pl.sticky(p); row >= 0 {
		if res, why := pl.resources(row, id); why == "" {
			return row, 0, res, id
		}
	}
	for {
		row, score, ok := pl.best()
		if !ok {
			if !pl.openCheapest() {
				return -1, 0, nil, ""
			}
			continue
		}
		if pl.distinct.Check(pl.cluster.nodes[row]) != "" {
			pl.picker.Drop(row)
			pl.dropped[row] = true
			continue
		}
		if !pl.evictOn(row, id) {
			continue
		}
		res, why := pl.resources(row, id)
		if why == "" {
			return row, score, res, id
		}
		pl.exhausted[row] = why
		pl.picker.Drop(row)
	}
}

// resources returns the resources of the alloc on a row, or what is lacking there.
func (pl *placer) resources(row int, id string) (*model.AllocatedResources, string) {
	n := pl.cluster.nodes[row]
	if n.NodeMaxAllocs > 0 {
		if why := feasible.Crowded(n, len(feasible.Holders(pl.view, n.ID, pl.cluster.gone[n.ID]))+len(pl.cluster.placed[row])+1); why != "" {
			return nil, why
		}
	}
	if !pl.exclusive {
		return pl.shared, ""
	}
	if why := pl.mayMount(row); why != "" {
		return nil, why
	}
	res, why := pl.cluster.assign(row, pl.chk, pl.tg, id, pl.over)
	if why == "" {
		// Cores have different speeds on different nodes, so check the assigned
		// resources again.
		if why = pl.cluster.cols.Lacking(row, ask(res)); why != "" {
			return nil, why
		}
	}
	return res, why
}

// penalised returns the rows on which the alloc failed before.
func (pl *placer) penalised(prev *model.Allocation) []int {
	ids := []string{prev.NodeID}
	if prev.RescheduleTracker != nil {
		for _, e := range prev.RescheduleTracker.Events {
			ids = append(ids, e.PrevNodeID)
		}
	}
	var rows []int
	for _, id := range ids {
		if row, ok := pl.cluster.row(id); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// sticky returns the row of the previous alloc if its disk should be kept, or -1.
func (pl *placer) sticky(p *reconcile.Placement) int {
	if p.Previous == nil || p.Reschedule || pl.tg.EphemeralDisk == nil || !pl.tg.EphemeralDisk.Sticky {
		return -1
	}
	row, ok := pl.cluster.row(p.Previous.NodeID)
	if !ok || !pl.picker.Fits(row) || pl.lent(row) || pl.distinct.Check(pl.cluster.nodes[row]) != "" {
		return -1
	}
	return row
}

func (pl *placer) take(row int, res *model.AllocatedResources) {
	if pl.exclusive { // whole cores use more compute on a node with faster cores
		got, asked := ask(res), ask(pl.shared)
		pl.cluster.cols.Use(row, rank.Ask{CPU: got.CPU - asked.CPU})
	}
	pl.picker.Take(row)
	if pl.distinct != nil {
		pl.distinct.Add(pl.cluster.nodes[row], pl.tg.Name, 1)
		pl.crowded = append(pl.crowded, row)
	}
}

// commit adds the new alloc, and the stop of the alloc that it replaces, to the plan.
func (p *process) commit(pm *reconcile.Placement, row int, id string, res *model.AllocatedResources, made *placement) {
	n, a := p.cluster.nodes[row], &made.alloc
	*a = model.Allocation{
		ID: id, Namespace: pm.Job.Namespace, EvalID: p.eval.ID, Name: pm.Name, NodeID: n.ID, NodeName: n.Name,
		JobID: pm.Job.ID, JobVersion: pm.Job.Version, TaskGroup: pm.Group.Name, AllocatedResources: res, Metrics: &made.metric,
		DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusPending,
		DeploymentID: pm.Deployment, CreateTime: p.now.UnixNano(), ModifyTime: p.now.UnixNano(),
	}
	if pm.Canary {
		a.DeploymentStatus = &model.AllocDeploymentStatus{Canary: true}
	}
	if prev := pm.Previous; prev != nil {
		a.PreviousAllocation = prev.ID
		a.RescheduleTracker = reconcile.Tracker(pm.Group.ReschedulePolicy, prev, pm.Reschedule, p.now)
		if pm.Update {
			p.stop(prev, reconcile.DescUpdating, "")
		}
	}
	p.plan.Place = append(p.plan.Place, a)
	p.cluster.placed[row] = append(p.cluster.placed[row], a)
}
