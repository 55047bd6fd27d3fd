// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/schedule/preempt"
	"github.com/drover-project/drover/core/schedule/rank"
)

// evictions is what a plan preempts, and what the search for it needs to know.
type evictions struct {
	*process
	on      bool
	victims map[model.JobKey]*victimJob
	asks    map[*model.AllocatedResources]preempt.Amount // allocs of a group share their resources
	chooser preempt.Chooser
	holders []preempt.Holder
	evicted []*model.Allocation
	first   map[string]bool // see needs; nil until it is asked for
}

// victimJob is a job whose allocs use nodes.
type victimJob struct {
	job     *model.Job
	allowed bool // its allocs may be preempted
}

func newEvictions(p *process) *evictions {
	e := &evictions{process: p}
	if p.job != nil && p.scheduling(p.job).Preemption.Allows(p.job.Type) {
		e.on, e.victims, e.asks = true, map[model.JobKey]*victimJob{}, map[*model.AllocatedResources]preempt.Amount{}
	}
	return e
}

func (e *evictions) jobOf(a *model.Allocation) *victimJob {
	key := a.JobKey()
	v := e.victims[key]
	if v == nil {
		v = &victimJob{job: e.view.JobByID(key.Namespace, key.ID)}
		v.allowed = e.job.MayPreempt(v.job) && !(key.Namespace == e.job.Namespace && e.needs()[key.ID])
		e.victims[key] = v
	}
	return v
}

// needs returns the jobs on which this one depends, directly or through other jobs. Their
// allocs are never preempted for it, whatever its priority, because it cannot run without
// them.
func (e *evictions) needs() map[string]bool {
	if e.first != nil {
		return e.first
	}
	e.first = map[string]bool{}
	for next := []*model.Job{e.job}; len(next) > 0; next = next[1:] {
		if next[0] == nil {
			continue
		}
		for _, d := range next[0].DependsOn {
			if !e.first[d.Name] {
				e.first[d.Name] = true
				next = append(next, e.view.JobByID(e.job.Namespace, d.Name))
			}
		}
	}
	return e.first
}

func (e *evictions) holds(r *model.AllocatedResources) preempt.Amount {
	if r == nil {
		return preempt.Amount{4: 1}
	}
	out, known := e.asks[r]
	if !known {
		c := r.Comparable()
		out = preempt.Amount{c.CPUShares, c.MemoryMB, c.DiskMB, int64(len(c.Cores)), 1}
		e.asks[r] = out
	}
	return out
}

// evict adds the preemption of an alloc in favour of a new one to the plan.
func (e *evictions) evict(a *model.Allocation, by string) {
	e.plan.Change = append(e.plan.Change, model.AllocChange{Kind: model.AllocStop, AllocID: a.ID, PreemptedBy: by})
	if !slices.ContainsFunc(e.plan.PreemptionEvals, func(x *model.Evaluation) bool { return x.JobID == a.JobID && x.Namespace == a.Namespace }) {
		e.plan.PreemptionEvals = append(e.plan.PreemptionEvals, model.NewEvaluation(e.ids.NewID(), model.EvalTriggerPreemption, e.jobOf(a).job, e.now))
	}
	e.evicted = append(e.evicted, a)
}

// report lists what is preempted for those who asked for a plan only. In state the allocs
// themselves say it.
func (e *evictions) report() {
	if !e.eval.AnnotatePlan {
		return
	}
	for _, a := range e.evicted {
		st := a.Stub()
		st.JobType = e.jobOf(a).job.Type
		e.out.Annotations.PreemptedAllocs = append(e.out.Annotations.PreemptedAllocs, st)
	}
}

// onRow collects the allocs of a row that may be preempted for the group, and what the row
// lacks besides. leaving is what allocs hold there that will end anyway. ok is false if
// something else is in the way.
func (pl *placer) onRow(row int) (lacks, leaving preempt.Amount, ok bool) {
	e, n, cols := pl.evicts, pl.cluster.nodes[row], pl.cluster.cols
	e.holders = e.holders[:0]
	cores, count := int64(0), int64(len(pl.cluster.placed[row]))
	note := func(a *model.Allocation) (holds preempt.Amount) {
		holds = e.holds(a.AllocatedResources)
		cores += holds[3]
		return holds
	}
	for _, a := range pl.cluster.placed[row] {
		note(a)
	}
	gone := pl.cluster.gone[n.ID]
	for _, a := range pl.view.AllocsByNode(n.ID) {
		if a.ClientTerminalStatus() || gone[a.ID] {
			continue
		}
		holds := note(a)
		count++
		if a.ServerTerminalStatus() {
			for d := range leaving {
				leaving[d] += holds[d]
			}
			continue
		}
		must := pl.exclusive && feasible.HoldsStaticPort(n, pl.tg, a)
		if of := e.jobOf(a); of.allowed && a.ClientStatus != model.AllocClientStatusUnknown {
			e.holders = append(e.holders, preempt.Holder{Alloc: a, Priority: of.job.Priority, Holds: holds, Must: must})
		} else if must {
			return lacks, leaving, false
		}
	}
	want := ask(pl.shared)
	lacks = preempt.Amount{
		cols.UsedCPU[row] + want.CPU - cols.CapCPU[row], cols.UsedMemory[row] + want.Memory - cols.CapMemory[row],
		cols.UsedDisk[row] + want.Disk - cols.CapDisk[row], cores + feasible.CoresAsked(pl.tg) - feasible.ReservableCores(n),
	}
	if feasible.CoresAsked(pl.tg) == 0 {
		lacks[3] = 0
	}
	if n.NodeMaxAllocs > 0 {
		lacks[4] = count + 1 - int64(n.NodeMaxAllocs)
	}
	return lacks, leaving, len(e.holders) > 0
}

// cheapest returns the smallest set of allocs that have to go from a row for one more of
// the group. Unless it is exact, ports and devices are left out of account, so that the real
// set may be larger. A row on which allocs are ending that would make the set smaller is
// left alone: room is on its way there, and the placement that waits for it is woken.
func (pl *placer) cheapest(row int, exact bool) (preempt.Set, bool) {
	lacks, leaving, ok := pl.onRow(row)
	if !ok {
		return preempt.Set{}, false
	}
	e := pl.evicts
	var fits func([]preempt.Holder) bool
	if exact && pl.exclusive {
		fits = func(hs []preempt.Holder) bool { return pl.fitsWithout(row, hs) }
	}
	set, ok := e.chooser.Smallest(e.holders, lacks, fits)
	if !ok || leaving == (preempt.Amount{}) {
		return set, ok
	}
	for d := range lacks {
		lacks[d] -= leaving[d]
	}
	later, ok := e.chooser.Smallest(e.holders, lacks, fits)
	return set, ok && later.Compare(&set) == 0
}

// fitsWithout reports whether one more alloc of the group fits on a row without the
// holders.
func (pl *placer) fitsWithout(row int, holders []preempt.Holder) bool {
	for i := range holders {
		pl.cluster.release(holders[i].Alloc)
	}
	_, why := pl.tryOn(row, "")
	for i := range holders {
		pl.cluster.restore(holders[i].Alloc)
	}
	return why == ""
}

// tryOn returns the resources of one more alloc on a row, or what is lacking there.
func (pl *placer) tryOn(row int, id string) (*model.AllocatedResources, string) {
	if why := pl.cluster.cols.Lacking(row, ask(pl.shared)); why != "" {
		return nil, why
	}
	return pl.resources(row, id)
}

// evictBest preempts what one more alloc of the group needs on a row, and reports whether
// that was possible.
func (pl *placer) evictBest(row int, id string) bool {
	if !pl.evicts.on {
		return false
	}
	set, ok := pl.cheapest(row, true)
	if !ok || len(set.Holders) == 0 {
		return false
	}
	pl.evictAll(&set, id)
	return true
}

func (pl *placer) evictAll(set *preempt.Set, id string) {
	for i := range set.Holders {
		pl.cluster.release(set.Holders[i].Alloc)
		pl.evicts.evict(set.Holders[i].Alloc, id)
	}
	pl.updates[pl.tg.Name].Preemptions += uint64(len(set.Holders))
}

// secondRound places what found no room as it is, by preempting allocs. The rows whose
// preemption is cheapest are opened: what their sets hold is lent to the columns, so that
// the picker sees the rooms and ranks them by its rules. Only where an alloc is placed is
// anything preempted.
type secondRound struct {
	options options         // rows that are not open
	open    map[int]*option // rows that are
	cost    preempt.Set     // of the open rows
	free    []int           // rows that may have room without preempting anything more
	newest  []*option       // by row: others of the row are out of date
}

// option is a row with the allocs that would have to go.
type option struct {
	row   int
	set   preempt.Set
	exact bool
}

// options is a heap with the cheapest option first.
type options []*option

func (h options) Len() int { return len(h) }
func (h options) Less(i, j int) bool {
	return cmp.Or(h[i].set.Compare(&h[j].set), cmp.Compare(h[i].row, h[j].row)) < 0
}
func (h options) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *options) Push(o any) { *h = append(*h, o.(*option)) }

// Pop implements heap.Interface.
func (h *options) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	*h = (*h)[:last]
	return o
}

// best returns the best row for the next alloc. In a second round rows where nothing more
// has to be preempted come first, and then those that cost less than the open ones.
func (pl *placer) best() (row int, score float64, ok bool) {
	s := pl.second
	if s == nil {
		return pl.picker.Best()
	}
	for len(s.free) > 0 {
		row := s.free[len(s.free)-1]
		if _, lent := s.open[row]; !lent && pl.picker.Fits(row) {
			return row, 0, true
		}
		s.free = s.free[:len(s.free)-1]
	}
	for o := s.cheapest(); o != nil && len(s.open) > 0 && o.set.Compare(&s.cost) < 0; o = s.cheapest() {
		pl.lend(o)
		if pl.picker.Fits(o.row) {
			return o.row, 0, true
		}
	}
	return pl.picker.Best()
}

// cheapest returns the cheapest option, or nil.
func (s *secondRound) cheapest() *option {
	for len(s.options) > 0 {
		if o := s.options[0]; s.newest[o.row] == o {
			return o
		}
		heap.Pop(&s.options)
	}
	return nil
}

// changed tells a second round that the room or the allocs of a row have changed.
func (pl *placer) changed(row int) {
	s := pl.second
	if s == nil {
		return
	}
	if o := s.open[row]; o != nil {
		pl.takeBack(o)
	}
	s.newest[row] = nil
	if pl.picker.Fits(row) {
		s.free = append(s.free, row)
	} else if set, ok := pl.cheapest(row, false); ok {
		s.add(&option{row: row, set: set})
	}
}

// lent reports whether the columns show more room on a row than there is.
func (pl *placer) lent(row int) bool {
	if pl.second == nil {
		return false
	}
	_, lent := pl.second.open[row]
	return lent
}

// openCheapest opens the rows whose preemption is cheapest. It begins the second round,
// and reports whether there is another row.
func (pl *placer) openCheapest() bool {
	if !pl.evicts.on || pl.failed != nil {
		return false
	}
	s := pl.second
	if s == nil {
		s = &secondRound{open: map[int]*option{}, newest: make([]*option, len(pl.cluster.nodes))}
		pl.second = s
		for row, n := range pl.cluster.nodes {
			if pl.chk.Check(n) != "" || pl.distinct.Check(n) != "" {
				continue
			}
			if set, ok := pl.cheapest(row, false); ok {
				s.newest[row] = &option{row: row, set: set}
				s.options = append(s.options, s.newest[row])
			}
		}
		heap.Init(&s.options)
	}
	o := s.cheapest()
	if o == nil {
		pl.endSecondRound()
		return false
	}
	s.cost = o.set
	for ; o != nil && o.set.Compare(&s.cost) == 0; o = s.cheapest() {
		pl.lend(o)
	}
	return true
}

func (s *secondRound) add(o *option) {
	s.newest[o.row] = o
	heap.Push(&s.options, o)
}

// lend opens the row of the cheapest option.
func (pl *placer) lend(o *option) {
	heap.Pop(&pl.second.options)
	pl.second.open[o.row] = o
	pl.use(o, -1)
	pl.picker.Restore(o.row)
}

// takeBack ends what lend began. A row that lacks ports, cores or devices is no choice.
func (pl *placer) takeBack(o *option) {
	delete(pl.second.open, o.row)
	pl.use(o, 1)
	if pl.exhausted[o.row] != "" || pl.dropped[o.row] {
		pl.picker.Drop(o.row)
	} else {
		pl.picker.Refresh(o.row)
	}
}

func (pl *placer) use(o *option, sign int64) {
	f := o.set.Freed()
	pl.cluster.cols.Use(o.row, rank.Ask{CPU: sign * f[0], Memory: sign * f[1], Disk: sign * f[2]})
}

// evictOn makes room on a row that was chosen. It returns false if the caller has to choose
// again, because the row costs more than it seemed or cannot be used.
func (pl *placer) evictOn(row int, id string) bool {
	if !pl.lent(row) {
		return true
	}
	o := pl.second.open[row]
	pl.takeBack(o)
	if pl.exclusive && !o.exact {
		set, ok := pl.cheapest(row, true)
		if !ok {
			pl.unusable(row)
			return false
		}
		if set.Compare(&o.set) > 0 {
			pl.second.add(&option{row, set, true})
			return false
		}
		o.set = set
	}
	pl.evictAll(&o.set, id)
	delete(pl.exhausted, row)
	pl.picker.Restore(row)
	return true
}

// unusable drops a row for the rest of the group.
func (pl *placer) unusable(row int) {
	if _, why := pl.tryOn(row, ""); why != "" {
		pl.exhausted[row] = why
	}
	pl.picker.Drop(row)
}

// endSecondRound takes back what was lent.
func (pl *placer) endSecondRound() {
	if pl.second == nil {
		return
	}
	for _, o := range pl.second.open {
		pl.takeBack(o)
	}
}
