// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package interleave_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/control/drain"
	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/nodeevals"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
)

// world is the servers, as one log and one state, and the machines with nodes. Nothing in
// it depends on a clock, on randomness or on goroutines: the steps alone decide.
type world struct {
	store    *state.Store
	fsm      *fsm.FSM
	now      time.Time // the leader's clock
	ids      int
	jobs     []*spec
	machines []*machine
	flights  []*flight
	rules    *rules
	trace    []string
	gone     string        // the machine that does not come back when all faults end
	late     []fsm.Command // what a leader's controllers have decided, and another state gets
	lateAt   uint64        // the index on which they did
	stale    uint64        // lateAt while these commands are applied
}

// flight is an evaluation that a worker carries out.
type flight struct {
	eval    *model.Evaluation
	out     *schedule.Outcome
	cmd     *fsm.ApplyPlan // verified, and on its way through the log
	refused []model.PlanRejection
	applied bool // the plan is; the evaluation is not stored yet
}

func newWorld(jobs []*spec, machines int) *world {
	w := &world{store: state.New(), now: time.Unix(1_700_000_000, 0).UTC(), jobs: jobs}
	w.fsm = fsm.New(w.store, hclog.NewNullLogger())
	w.rules = newRules(w)
	w.apply(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	w.apply(&fsm.RaiseLevel{Level: fsm.Level})
	for i := range machines {
		m := &machine{w: w, id: fmt.Sprint("n", i), linked: true, agent: true, has: map[string]*local{}}
		w.machines = append(w.machines, m)
		m.register()
	}
	return w
}

// NewID implements schedule.IDSource.
func (w *world) NewID() string {
	w.ids++
	return fmt.Sprintf("%08d-0000-0000-0000-000000000000", w.ids)
}

func (w *world) sayf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%s %5d  ", w.now.Format("15:04:05"), w.store.View().Index())+fmt.Sprintf(format, args...))
}

// broken is the violation of a rule.
type broken struct{ why string }

func (w *world) brokenf(format string, args ...any) {
	w.sayf("BROKEN: "+format, args...)
	panic(broken{fmt.Sprintf(format, args...)})
}

// apply puts a command into the log and checks the rules.
func (w *world) apply(c fsm.Command) any {
	data, err := fsm.Encode(c)
	if err != nil {
		w.brokenf("%T cannot be encoded: %v", c, err)
	}
	before := w.store.View()
	answer := w.fsm.ApplyBatch([]fsm.Entry{{Index: before.Index() + 1, Data: data}})[0]
	w.rules.check(before, w.store.View(), c)
	return answer
}

// due returns the evaluations of jobs that a worker may take, in the order of their
// creation.
func (w *world) due(blocked bool) (out []*model.Evaluation) {
	for e := range w.store.View().Evals() {
		ready := e.Status == model.EvalStatusPending && !e.WaitUntil.After(w.now) || blocked && e.Status == model.EvalStatusBlocked
		if ready && !slices.ContainsFunc(w.flights, func(f *flight) bool { return f.eval.ID == e.ID }) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *model.Evaluation) int { return int(a.CreateIndex) - int(b.CreateIndex) })
	return out
}

// plan lets a worker take an evaluation and plan on the state of now. Unless the worker
// before it was given up, nobody else works for the job.
func (w *world) plan(e *model.Evaluation, twice bool) *flight {
	if !twice && slices.ContainsFunc(w.flights, func(f *flight) bool { return f.eval.JobID == e.JobID }) {
		return nil
	}
	f := &flight{eval: e, out: schedule.Process(w.store.View(), e, w.now, w)}
	if len(f.out.FollowUps) > 0 {
		w.apply(&fsm.UpsertEvals{Evals: f.out.FollowUps})
	}
	w.flights = append(w.flights, f)
	w.sayf("plan for %s (%s %s, since %s): %s", e.JobID, e.TriggeredBy, short(e.ID), e.WaitUntil.Format(time.TimeOnly), describe(f.out.Plan))
	return f
}

// advance carries a flight one stage further: verified, applied, stored.
func (w *world) advance(f *flight) {
	switch {
	case f.applied:
		w.land(f)
	case f.out.Plan.IsNoOp():
		f.applied = true
	case f.cmd == nil:
		for _, other := range w.flights { // one group of plans is on its way at a time
			if other.cmd != nil && !other.applied {
				w.advance(other)
			}
		}
		view := w.store.View()
		r := plan.Verify(view, f.out.Plan)
		f.refused = r.Rejections
		f.cmd = fsm.NewApplyPlan(f.out.Plan, r, view.Index(), w.now.UnixNano())
	default:
		if answer, ok := w.apply(f.cmd).([]model.PlanRejection); ok {
			f.refused = append(f.refused, answer...)
		}
		f.applied = true
		w.sayf("plan for %s applied, refused: %v", f.eval.JobID, f.refused)
	}
}

// land stores the outcome of an evaluation, unless a part of its plan was refused: then
// it is carried out again.
func (w *world) land(f *flight) {
	w.flights = slices.DeleteFunc(w.flights, func(x *flight) bool { return x == f })
	view := w.store.View()
	if now := view.EvalByID(f.eval.ID); now == nil || now.TerminalStatus() || len(f.refused) > 0 {
		return
	}
	out := []*model.Evaluation{f.out.Eval}
	f.out.Eval.WaitUntil = time.Time{}
	if f.out.Blocked != nil {
		out = append(out, f.out.Blocked)
	}
	// What the queues do: of what waits behind an evaluation only the newest is carried
	// out, and a job has one blocked evaluation.
	behind := w.due(false)
	behind = slices.DeleteFunc(behind, func(e *model.Evaluation) bool { return e.JobID != f.eval.JobID || e.ID == f.eval.ID })
	for _, e := range behind[:max(0, len(behind)-1)] {
		out = append(out, cancelled(e))
	}
	if f.out.Blocked != nil {
		for e := range view.Evals() {
			if e.JobID == f.eval.JobID && e.Status == model.EvalStatusBlocked && e.ID != f.eval.ID {
				out = append(out, cancelled(e))
			}
		}
	}
	w.apply(&fsm.UpsertEvals{Evals: out})
}

func cancelled(e *model.Evaluation) *model.Evaluation {
	c := e.Copy()
	c.Status = model.EvalStatusCancelled
	return c
}

// control runs a controller for everything that there is to decide.
func (w *world) control(c control.Controller) (did bool, wake time.Time) {
	keys, err := control.All(c, w.store.View())
	if err != nil {
		w.brokenf("controller: %v", err)
	}
	for _, key := range keys {
		d, err := control.Decide(c, w.store.View(), w.now, w.NewID, key)
		if err != nil {
			w.brokenf("controller: %v", err)
		}
		if !d.Wake.IsZero() && (wake.IsZero() || d.Wake.Before(wake)) {
			wake = d.Wake
		}
		for _, cmd := range d.Commands {
			did = true
			w.sayf("controller: %s", brief(cmd))
			w.apply(cmd)
		}
	}
	return did, wake
}

// lateControllers lets controllers decide, and the next time applies what they decided: the
// log was slow, or another leader has decided meanwhile. twice applies it twice.
func (w *world) lateControllers(twice bool) {
	if len(w.late) == 0 {
		w.lateAt = w.store.View().Index()
		keys, err := control.All(deploy.Controller{}, w.store.View())
		if err != nil {
			w.brokenf("controller: %v", err)
		}
		for _, key := range keys {
			d, err := control.Decide(deploy.Controller{}, w.store.View(), w.now, w.NewID, key)
			if err != nil {
				w.brokenf("controller: %v", err)
			}
			w.late = append(w.late, d.Commands...)
		}
		return
	}
	w.stale = w.lateAt
	times := 1
	if twice {
		times = 2
	}
	for range times {
		for _, cmd := range w.late {
			w.sayf("late controller: %s", brief(cmd))
			w.apply(cmd)
		}
	}
	w.late, w.stale = nil, 0
}

func (w *world) controllers() bool {
	a, _ := w.control(deploy.Controller{})
	b, _ := w.control(drain.Controller{})
	return a || b
}

// silent gives a node up of which nothing was heard.
func (w *world) silent(id string) {
	view := w.store.View()
	n := view.NodeByID(id)
	if n == nil {
		return
	}
	if status := dispatch.StatusOfSilent(view, n); status != n.Status {
		w.status(view, n, status)
	}
}

func (w *world) status(view *state.View, n *model.Node, status string) {
	w.sayf("node %s: %s -> %s", n.ID, n.Status, status)
	w.apply(&fsm.UpdateNodeStatus{NodeID: n.ID, Status: status, UpdatedAt: w.now.Unix(), Evals: nodeevals.Of(view, n, w.now, w.NewID)})
}

func (w *world) eval(job *model.Job, trigger string) *model.Evaluation {
	return model.NewEvaluation(w.NewID(), trigger, job, w.now)
}

// allocs returns all allocs, ordered by id.
func (w *world) allocs() []*model.Allocation { return slices.Collect(w.store.View().Allocs()) }

func describe(p *model.Plan) string {
	s := ""
	for _, c := range p.Change {
		s += fmt.Sprintf(" %s:%d(%s%s)", short(c.AllocID), c.Kind, c.Description, c.ClientStatus)
	}
	for _, a := range p.Place {
		s += fmt.Sprintf(" +%s=%s v%d on %s after %q", short(a.ID), a.Name, a.JobVersion, a.NodeID, short(a.PreviousAllocation))
		if a.DeploymentStatus.IsCanary() {
			s += " canary"
		}
	}
	for _, u := range p.DeploymentUpdates {
		s += fmt.Sprintf(" deployment %s %s", short(u.DeploymentID), u.Status)
	}
	if p.Deployment != nil {
		s += " begins deployment " + short(p.Deployment.ID)
	}
	return s
}

func brief(c fsm.Command) string {
	switch c := c.(type) {
	case *fsm.UpdateDeploymentStatus:
		return fmt.Sprintf("deployment %s: %s (%s)", short(c.Update.DeploymentID), c.Update.Status, c.Update.StatusDescription)
	case *fsm.UpdateDesiredTransitions:
		return fmt.Sprintf("transitions of %d allocs", len(c.Transitions))
	}
	return fmt.Sprintf("%T", c)
}

// short is an id without what all ids have in common.
func short(id string) string {
	if len(id) > 8 {
		return id[4:8]
	}
	return id
}
