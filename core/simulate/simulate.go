// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package simulate plays what-if on a copy of a cluster's state: nodes that vanish or drain,
// counts that change. It runs the scheduler, the check of plans and the log's commands that
// servers run, on a state that belongs to the caller, and says where everything would run and
// what would not fit. The command `operator simulate` uses it.
//
// Tasks are not played: what is asked to stop has ended at once, and what starts stays
// unjudged, so a roll-out goes as far as its first allocs.
package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/nodeevals"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/schedule/reconcile"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Change is what happens to the cluster. Without any, every job is evaluated as it is.
type Change struct {
	NodesDown     []string
	NodesDraining []string
	Counts        []Count
}

// Count is another count of a group.
type Count struct {
	Job   model.JobKey
	Group string
	Count int
}

// Result says what came of a change.
type Result struct {
	Starts      []*Start
	Stops       int // allocs that ended or are lost
	Unplaced    []*Unplaced
	Held        []*Held
	Evaluations int // how many were carried out
}

// Start is an alloc that would start.
type Start struct {
	Namespace string
	Job       string
	Group     string
	Name      string
	NodeID    string
	NodeName  string
	From      string // the name of the node of the alloc that it replaces, "" if there is none
}

// Unplaced is a group of which allocs would find no place.
type Unplaced struct {
	Namespace string
	Job       string
	Group     string
	Missing   int
	Before    int // how many had no place before the change
	Metric    *model.AllocMetric
}

// Held is a group that gets no allocs, because what it depends on is not as it needs it.
type Held struct {
	Namespace string
	Job       string
	Group     string
	Hold      *model.Hold
}

// maxTries is how often one evaluation is carried out because parts of its plan were
// refused.
const maxTries = 5

// sim is one simulation.
type sim struct {
	ctx    context.Context
	answer any // of the newest command
	fsm    *fsm.FSM
	now    time.Time
	index  uint64 // of the state on which the simulation began
	ids    int
	queue  waiting
	tries  map[string]int
	out    *Result
}

// Run applies a change to the state in store, which it changes, and carries out every
// evaluation that follows.
func Run(ctx context.Context, store *state.Store, c Change, now time.Time) (*Result, error) {
	s := &sim{
		ctx: ctx, fsm: fsm.New(store, hclog.NewNullLogger()), now: now, index: store.View().Index(), tries: map[string]int{}, out: &Result{},
	}
	missed := missing(store.View())
	s.enqueue(slices.Collect(store.View().Evals())...)
	if err := s.begin(c); err != nil {
		return nil, err
	}
	if err := s.untilNothingComes(); err != nil {
		return nil, err
	}
	for key, u := range missing(store.View()) {
		if b := missed[key]; b != nil {
			u.Before = b.Missing
		}
		s.out.Unplaced = append(s.out.Unplaced, u)
	}
	slices.SortFunc(s.out.Unplaced, func(a, b *Unplaced) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Group, b.Group))
	})
	s.out.Held = held(store.View(), now)
	return s.out, nil
}

// untilNothingComes carries out the evaluations that are due, and again those that are blocked
// as long as more starts: there may be room for them now, or what they depend on.
func (s *sim) untilNothingComes() error {
	for {
		for e := s.next(); e != nil; e = s.next() {
			if err := s.carryOut(e); err != nil {
				return err
			}
		}
		starts := len(s.out.Starts)
		for _, e := range s.blocked() {
			if err := s.carryOut(e); err != nil {
				return err
			}
		}
		if len(s.out.Starts) == starts && len(s.queue) == 0 {
			return nil
		}
	}
}

// blocked returns the blocked evaluations, the most important first.
func (s *sim) blocked() []*model.Evaluation {
	var out waiting
	for e := range s.view().Evals() {
		if e.Status == model.EvalStatusBlocked {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, before)
	return out
}

// NewID implements schedule.IDSource. The ids differ from those of servers, and from those of
// a simulation on an earlier state.
func (s *sim) NewID() string {
	s.ids++
	return fmt.Sprintf("%08x-51a0-4000-8000-%012x", uint32(s.index), s.ids)
}

func (s *sim) view() *state.View { return s.fsm.Store().View() }

// Propose implements propose.Log: the log has one reader, which applies at once.
func (s *sim) Propose(ctx context.Context, command []byte) (index uint64, answer any, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	index = s.view().Index() + 1
	s.answer = s.fsm.ApplyBatch([]fsm.Entry{{Index: index, Data: command}})[0]
	err, _ = s.answer.(error)
	return index, s.answer, err
}

// apply puts a command into the log. Its answer is in s.answer.
func (s *sim) apply(c fsm.Command) error {
	if _, err := propose.Commands(s.ctx, s, c); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	return nil
}

// begin applies the change.
func (s *sim) begin(c Change) error {
	for _, id := range c.NodesDown {
		n, err := s.node(id)
		if err != nil {
			return err
		}
		evals := nodeevals.Of(s.view(), n, s.now, s.NewID)
		if err := s.apply(&fsm.UpdateNodeStatus{NodeID: n.ID, Status: model.NodeStatusDown, UpdatedAt: s.now.Unix()}); err != nil {
			return err
		}
		if err := s.submit(evals...); err != nil {
			return err
		}
	}
	for _, id := range c.NodesDraining {
		if err := s.drain(id); err != nil {
			return err
		}
	}
	for _, count := range c.Counts {
		if err := s.count(count); err != nil {
			return err
		}
	}
	if len(c.NodesDown)+len(c.NodesDraining)+len(c.Counts) > 0 {
		return nil
	}
	var evals []*model.Evaluation
	for job := range s.view().Jobs("") {
		if !job.Stop {
			evals = append(evals, model.NewEvaluation(s.NewID(), model.EvalTriggerJobRegister, job, s.now))
		}
	}
	return s.submit(evals...)
}

func (s *sim) node(id string) (*model.Node, error) {
	if n := s.view().NodeByID(id); n != nil {
		return n, nil
	}
	return nil, errdefs.NotFoundf("the snapshot has no node %q", id)
}

// drain lets everything move away from a node.
func (s *sim) drain(id string) error {
	n, err := s.node(id)
	if err != nil {
		return err
	}
	yes := true
	moves := map[string]model.DesiredTransition{}
	for _, a := range s.view().AllocsByNode(n.ID) {
		if !a.TerminalStatus() {
			moves[a.ID] = model.DesiredTransition{Migrate: &yes}
		}
	}
	evals := nodeevals.Of(s.view(), n, s.now, s.NewID)
	if err := s.apply(&fsm.UpdateNodeDrain{NodeID: n.ID, Strategy: &model.DrainStrategy{StartedAt: s.now.UTC()}, UpdatedAt: s.now.Unix()}); err != nil {
		return err
	}
	if err := s.apply(&fsm.UpdateDesiredTransitions{Transitions: moves}); err != nil {
		return err
	}
	return s.submit(evals...)
}

func (s *sim) count(c Count) error {
	job := s.view().JobByID(c.Job.Namespace, c.Job.ID).Copy()
	if job == nil {
		return errdefs.NotFoundf("the snapshot has no job %q in namespace %q", c.Job.ID, c.Job.Namespace)
	}
	tg := job.LookupTaskGroup(c.Group)
	if tg == nil {
		return errdefs.NotFoundf("job %q has no group %q", c.Job.ID, c.Group)
	}
	tg.Count = c.Count
	if err := job.Validate(); err != nil {
		return fmt.Errorf("job %q with the count %d: %w", c.Job.ID, c.Count, err)
	}
	if err := s.apply(&fsm.UpsertJob{Job: job}); err != nil {
		return err
	}
	return s.submit(model.NewEvaluation(s.NewID(), model.EvalTriggerScaling, job, s.now))
}

func before(a, b *model.Evaluation) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.CreateTime, b.CreateTime), cmp.Compare(a.ID, b.ID))
}

// waiting is a heap of evaluations, the most important first, the oldest among equals.
type waiting []*model.Evaluation

func (w waiting) Len() int { return len(w) }
func (w waiting) Less(i, j int) bool {
	return before(w[i], w[j]) < 0
}
func (w waiting) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *waiting) Push(e any) { *w = append(*w, e.(*model.Evaluation)) }

// Pop implements heap.Interface.
func (w *waiting) Pop() any {
	last := len(*w) - 1
	e := (*w)[last]
	*w = (*w)[:last]
	return e
}

// enqueue adds evaluations that are in the state and due.
func (s *sim) enqueue(evals ...*model.Evaluation) {
	for _, e := range evals {
		if e.Status == model.EvalStatusPending && !e.WaitUntil.After(s.now) {
			heap.Push(&s.queue, e)
		}
	}
}

// submit puts evaluations into the state and the queue.
func (s *sim) submit(evals ...*model.Evaluation) error {
	s.enqueue(evals...)
	return s.apply(&fsm.UpsertEvals{Evals: evals})
}

// next returns the evaluation to carry out, as it is in the state; nil if none is due.
func (s *sim) next() *model.Evaluation {
	for len(s.queue) > 0 {
		if e := s.view().EvalByID(heap.Pop(&s.queue).(*model.Evaluation).ID); e != nil && e.Status == model.EvalStatusPending {
			return e
		}
	}
	return nil
}

// carryOut does for an evaluation what a worker, the applier and the nodes do.
func (s *sim) carryOut(e *model.Evaluation) error {
	s.tries[e.ID]++
	s.out.Evaluations++
	view := s.view()
	out := schedule.Process(view, e, s.now, s)
	if len(out.FollowUps) > 0 {
		if err := s.submit(out.FollowUps...); err != nil {
			return err
		}
	}
	r := plan.Verify(view, out.Plan)
	if err := s.apply(fsm.NewApplyPlan(out.Plan, r, s.view().Index(), s.now.UnixNano())); err != nil {
		return err
	}
	refused, _ := s.answer.([]model.PlanRejection)
	s.note(out.Plan)
	s.enqueue(out.Plan.PreemptionEvals...)
	if err := s.end(out.Plan); err != nil {
		return err
	}
	if len(r.Rejections)+len(refused) > 0 && s.tries[e.ID] < maxTries {
		s.enqueue(e)
		return nil
	}
	evals := []*model.Evaluation{out.Eval}
	if out.Blocked != nil {
		evals = append(evals, out.Blocked)
		for _, old := range s.view().EvalsByJob(e.Namespace, e.JobID) { // a job has one blocked evaluation
			if old.Status == model.EvalStatusBlocked {
				c := old.Copy()
				c.Status = model.EvalStatusCancelled
				evals = append(evals, c)
			}
		}
	}
	return s.apply(&fsm.UpsertEvals{Evals: evals})
}

// note lists what of a plan was applied.
func (s *sim) note(p *model.Plan) {
	view := s.view()
	for _, placed := range p.Place {
		a := view.AllocByID(placed.ID)
		if a == nil {
			continue
		}
		start := &Start{Namespace: a.Namespace, Job: a.JobID, Group: a.TaskGroup, Name: a.Name, NodeID: a.NodeID, NodeName: a.NodeName}
		if prev := view.AllocByID(a.PreviousAllocation); prev != nil {
			start.From = prev.NodeName
		}
		s.out.Starts = append(s.out.Starts, start)
	}
}

// end lets what a plan stops end on its nodes.
func (s *sim) end(p *model.Plan) error {
	view := s.view()
	cmd := &fsm.UpdateAllocsFromClient{At: s.now.UnixNano()}
	for i := range p.Change {
		a := view.AllocByID(p.Change[i].AllocID)
		if a == nil || !a.ServerTerminalStatus() {
			continue
		}
		s.out.Stops++
		if !a.ClientTerminalStatus() {
			cmd.Reports = append(cmd.Reports, &model.AllocReport{ID: a.ID, ClientStatus: model.AllocClientStatusComplete})
		}
	}
	if len(cmd.Reports) == 0 {
		return nil
	}
	return s.apply(cmd)
}

// missing returns the groups that wait for room, by job and group.
func missing(v *state.View) map[string]*Unplaced {
	newest := map[model.JobKey]*model.Evaluation{}
	for e := range v.Evals() {
		key := model.JobKey{Namespace: e.Namespace, ID: e.JobID}
		if old := newest[key]; e.Status == model.EvalStatusBlocked && (old == nil || old.CreateIndex < e.CreateIndex) {
			newest[key] = e
		}
	}
	out := map[string]*Unplaced{}
	for key, e := range newest {
		for _, group := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
			m := e.FailedTGAllocs[group]
			out[state.JobKey(key.Namespace, key.ID)+"\x00"+group] = &Unplaced{
				Namespace: key.Namespace, Job: key.ID, Group: group, Missing: m.CoalescedFailures + 1, Metric: m,
			}
		}
	}
	return out
}

// held returns the groups that their dependencies hold back, ordered by job and group.
func held(v *state.View, now time.Time) (out []*Held) {
	for job := range v.Jobs("") {
		holds, evals := reconcile.Holds(v, job, now), v.EvalsByJob(job.Namespace, job.ID)
		for _, group := range slices.Sorted(maps.Keys(holds)) {
			h := holds[group]
			h.Allocs = job.LookupTaskGroup(group).Count
			for _, e := range evals {
				if was := e.Held[group]; was != nil && e.Status == model.EvalStatusBlocked {
					h.Allocs = was.Allocs
				}
			}
			out = append(out, &Held{Namespace: job.Namespace, Job: job.ID, Group: group, Hold: h})
		}
	}
	slices.SortFunc(out, func(a, b *Held) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Group, b.Group))
	})
	return out
}
