// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package interleave_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// TestMain sets what the flags of rapid are by default. The histories are the same each
// time; -rapid.seed=0 draws others, -rapid.checks runs more (make sim does both), and
// -rapid.seed with what a failure prints repeats one.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.seed": "33", "rapid.checks": "300", "rapid.nofailfile": "true", "rapid.shrinktime": "60s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// step is one thing that happens. A and B choose what it happens to, and how.
type step struct {
	What string
	A, B int
}

// what lists the kinds of steps; those that are there twice happen twice as often.
var what = []string{
	"beat", "beat", "pull", "pull", "pull", "run", "run", "run", "run", "report", "report", "report", "late report",
	"plan", "plan", "plan", "advance", "advance", "advance", "advance", "settle", "settle", "second worker",
	"link", "link", "silent", "silent", "silent", "agent", "reboot", "register", "cut off",
	"wait", "wait", "jump", "new leader", "skew", "controllers", "controllers", "late controllers", "late controllers",
	"new version", "one fails", "one fails",
	"register job", "register job", "stop job", "purge job", "stop alloc", "drain", "eligible", "promote", "pause", "fail deployment", "force reschedule", "all run", "all run",
}

// steps draws a part of a history. A history has many parts: rapid draws short slices, and
// shrinks one by leaving out any of its elements.
var steps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
	return step{
		What: rapid.SampledFrom(what).Draw(t, "what"),
		A:    rapid.IntRange(0, 11).Draw(t, "a"),
		B:    rapid.IntRange(0, 11).Draw(t, "b"),
	}
}), 0, 60)

const parts = 16

// TestEveryRuleHoldsInEveryInterleaving is the property.
func TestEveryRuleHoldsInEveryInterleaving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(jobs.Draw(t, "jobs"), 3)
		w.gone = rapid.SampledFrom([]string{"", "", "n0"}).Draw(t, "machine that never comes back")
		var list []step
		for range parts {
			list = append(list, steps.Draw(t, "steps")...)
		}
		if why := w.play(list); why != "" {
			t.Fatalf("%s\n%s", why, strings.Join(w.trace, "\n"))
		}
	})
}

// play takes the steps and then lets the world come to rest. It returns the violation of
// a rule, "" if there is none.
func (w *world) play(list []step) (why string) {
	defer func() {
		if p := recover(); p != nil {
			b, ok := p.(broken)
			if !ok {
				panic(p)
			}
			why = b.why
		}
	}()
	for _, s := range w.jobs {
		w.registerJob(s)
	}
	for _, s := range list {
		w.sayf("-- %s %d %d", s.What, s.A, s.B)
		w.take(s)
	}
	w.quiet()
	return ""
}

func one[T any](from []T, i int) (x T) {
	if len(from) > 0 {
		x = from[i%len(from)]
	}
	return x
}

func (w *world) take(s step) {
	m, job := one(w.machines, s.A), one(w.jobs, s.A)
	view := w.store.View()
	switch s.What {
	case "beat":
		m.beat()
	case "pull":
		m.pull()
	case "run":
		if x := one(m.locals(), s.B); x != nil {
			m.step(x, s.B%7)
		}
	case "all run":
		for _, m := range w.machines {
			m.beat()
			m.pull()
			for _, x := range m.locals() {
				m.step(x, 0)
			}
			m.report(arrives)
		}
	case "report":
		m.report(s.B % manyOutcome)
	case "late report":
		m.commitLate()
	case "plan":
		if e := one(w.due(s.B%3 == 0), s.A); e != nil {
			w.plan(e, false)
		}
	case "second worker":
		if e := one(w.due(false), s.A); e != nil {
			w.plan(e, true)
		}
	case "advance":
		if f := one(w.flights, s.A); f != nil {
			w.advance(f)
		}
	case "settle":
		w.settle()
		w.rules.ended()
	case "link":
		m.linked = !m.linked
	case "silent":
		if s.B > 8 || !m.reaches() {
			w.silent(m.id)
		}
	case "agent":
		m.agent = !m.agent
	case "reboot":
		m.agent = s.B%2 == 0
		m.reboot(s.B%3 == 0)
	case "register":
		m.register()
	case "cut off":
		m.cutOff()
	case "wait":
		w.now = w.now.Add(time.Duration(1+7*s.A) * time.Second)
	case "jump":
		w.now = w.now.Add(time.Duration(1-2*(s.A%2)) * time.Hour)
	case "new leader":
		w.flights = nil
	case "skew":
		m.skew = time.Duration(s.B%3-1) * time.Hour
	case "controllers":
		w.controllers()
	case "new version":
		job.env++
		w.registerJob(job)
		w.settle()
	case "one fails":
		if x := one(m.locals(), s.B); x != nil {
			m.step(x, s.B%7)
			m.step(x, 1+2*(s.B%2)) // it fails, or is unhealthy
			m.report(arrives)
			w.settle()
		}
	case "late controllers":
		w.lateControllers(s.B%3 == 0)
	case "register job":
		switch s.B % 4 {
		case 0:
			job.env++
		case 1:
			job.kill++
		case 2:
			job.count = s.B % 4
		default:
			job.count = 1 + s.A%3
		}
		w.registerJob(job)
	case "stop job", "purge job":
		if j := view.JobByID("default", job.ID); j != nil && s.B%2 == 0 {
			w.apply(&fsm.DeregisterJob{Namespace: "default", ID: job.ID, Purge: s.What == "purge job", SubmitTime: w.now.UnixNano(), Eval: w.eval(j, model.EvalTriggerJobDeregister)})
		}
	case "stop alloc", "force reschedule":
		w.transition(one(w.allocs(), s.A+12*s.B), s.What)
	case "drain":
		w.drain(m.id, s.B)
	case "eligible":
		w.apply(&fsm.UpdateNodeDrain{NodeID: m.id, MarkEligible: true, UpdatedAt: w.now.Unix(), Evals: w.nodeEvals(m.id)})
	case "promote", "pause", "fail deployment":
		w.deployment(view.LatestDeployment("default", job.ID), s.What)
	}
}

func (w *world) registerJob(s *spec) {
	job := s.job()
	w.apply(&fsm.UpsertJob{Job: job, Eval: w.eval(job, model.EvalTriggerJobRegister)})
	w.sayf("job %s is registered: %+v", s.ID, *s)
}

func (w *world) transition(a *model.Allocation, what string) {
	if a == nil {
		return
	}
	yes := true
	t := model.DesiredTransition{Migrate: &yes}
	if what == "force reschedule" {
		t = model.DesiredTransition{ForceReschedule: &yes}
		if a.ClientStatus != model.AllocClientStatusFailed && a.ClientStatus != model.AllocClientStatusLost {
			return
		}
	}
	if job := w.store.View().JobByID(a.Namespace, a.JobID); job != nil {
		w.sayf("%s: %s", what, short(a.ID))
		w.apply(&fsm.UpdateDesiredTransitions{Transitions: map[string]model.DesiredTransition{a.ID: t}, Evals: []*model.Evaluation{w.eval(job, model.EvalTriggerAllocStop)}})
	}
}

func (w *world) drain(id string, how int) {
	s := &model.DrainStrategy{StartedAt: w.now.UTC()}
	switch how % 3 {
	case 0:
		s.Deadline = -1
	default:
		s.Deadline = 2 * time.Minute
		s.ForceDeadline = w.now.Add(s.Deadline).UTC()
	}
	w.apply(&fsm.UpdateNodeDrain{NodeID: id, Strategy: s, UpdatedAt: w.now.Unix(), Evals: w.nodeEvals(id)})
}

func (w *world) deployment(d *model.Deployment, what string) {
	if !d.Active() {
		return
	}
	job := w.store.View().JobByVersion(d.Namespace, d.JobID, d.JobVersion)
	if job == nil {
		return
	}
	eval := w.eval(job, model.EvalTriggerDeploymentWatcher)
	update := &model.DeploymentStatusUpdate{DeploymentID: d.ID, UpdatedAt: w.now.UnixNano()}
	switch {
	case what == "promote":
		w.apply(&fsm.PromoteDeployment{DeploymentID: d.ID, All: true, Eval: eval, UpdatedAt: w.now.UnixNano()})
		return
	case what == "fail deployment":
		update.Status = model.DeploymentStatusFailed
	case d.Status == model.DeploymentStatusPaused:
		update.Status = model.DeploymentStatusRunning
	default:
		update.Status, eval = model.DeploymentStatusPaused, nil
	}
	w.sayf("deployment %s: %s", short(d.ID), update.Status)
	w.apply(&fsm.UpdateDeploymentStatus{Update: update, Eval: eval})
}

// settle carries out every evaluation that is due.
func (w *world) settle() {
	for range 60 {
		for len(w.flights) > 0 {
			w.advance(w.flights[0])
		}
		due := w.due(false)
		if len(due) == 0 {
			if !w.controllers() {
				return
			}
			continue
		}
		w.plan(due[0], false)
	}
	w.brokenf("evaluations never come to an end")
}

// quiet ends all faults and lets everything run to its end. Then every job has what it
// asks for, and nothing is left behind.
func (w *world) quiet() {
	w.sayf("-- quiet")
	for _, m := range w.machines {
		if m.id == w.gone {
			m.linked, m.agent = false, false
			w.silent(m.id)
			continue
		}
		m.linked, m.agent = true, true
		w.apply(&fsm.UpdateNodeDrain{NodeID: m.id, MarkEligible: true, UpdatedAt: w.now.Unix(), Evals: w.nodeEvals(m.id)})
	}
	w.rest()
	w.whole(false)
	for _, s := range w.jobs {
		s.env++
		s.count = max(s.count, 1)
		w.registerJob(s)
	}
	w.rest()
	w.whole(true)
}

// rest lets time pass until nothing happens any more.
func (w *world) rest() {
	for round := range 80 {
		before := w.store.View().Index()
		for _, m := range w.machines {
			m.commitLate()
			if m.id == w.gone {
				w.silent(m.id)
				continue
			}
			m.beat()
			m.pull()
			for _, x := range m.locals() {
				m.step(x, 0)
			}
			m.report(arrives)
		}
		for _, s := range w.jobs {
			if d := w.store.View().LatestDeployment("default", s.ID); d.Active() {
				if d.Status == model.DeploymentStatusPaused {
					w.deployment(d, "pause")
				} else if s.Update == "canary" && w.waitsForPromotion(d) {
					w.deployment(d, "promote")
				}
			}
		}
		w.settle()
		w.rules.ended()
		if e := one(w.due(true), 0); e != nil { // there is room for all
			w.plan(e, false)
			w.settle()
		}
		if before == w.store.View().Index() && !w.waiting() {
			return
		}
		if round < 40 {
			w.now = w.now.Add(10 * time.Second)
		} else {
			w.now = w.now.Add(10 * time.Minute) // clocks were hours apart
		}
	}
	w.brokenf("the world does not come to rest")
}

func (w *world) waitsForPromotion(d *model.Deployment) bool {
	healthy := 0
	for _, a := range w.store.View().AllocsByDeployment(d.ID) {
		if a.DeploymentStatus.IsCanary() && a.DeploymentStatus.IsHealthy() && !a.TerminalStatus() {
			healthy++
		}
	}
	g := d.TaskGroups["g"]
	return g.DesiredCanaries > 0 && !g.Promoted && !g.AutoPromote && healthy >= g.DesiredCanaries
}

// waiting reports whether something will happen later.
func (w *world) waiting() bool {
	v := w.store.View()
	for e := range v.Evals() {
		if e.Status == model.EvalStatusPending {
			return true
		}
	}
	for d := range v.Deployments() {
		if d.Status == model.DeploymentStatusRunning && d.TaskGroups["g"].ProgressDeadline > 0 { // others may wait for room for ever
			return true
		}
	}
	return false
}

// whole checks a world at rest. anew means that every job was just registered again.
func (w *world) whole(anew bool) {
	v := w.store.View()
	for e := range v.Evals() {
		if !e.TerminalStatus() {
			w.brokenf("evaluation %s of %s is %s for ever", short(e.ID), e.JobID, e.Status)
		}
	}
	for a := range v.Allocs() {
		switch {
		case a.NodeID == w.gone && w.endless(a.JobID):
		case a.ClientStatus == model.AllocClientStatusUnknown, a.ServerTerminalStatus() && !a.ClientTerminalStatus():
			w.brokenf("%s on %s is to %s and %s for ever", short(a.ID), a.NodeID, a.DesiredStatus, a.ClientStatus)
		}
	}
	for _, s := range w.jobs {
		w.wholeJob(s, anew)
	}
	for _, m := range w.machines {
		if m.id == w.gone {
			continue
		}
		for id, x := range m.has {
			if a := v.AllocByID(id); !x.is.ClientTerminalStatus() && (a == nil || a.TerminalStatus()) {
				w.brokenf("%s still runs on %s", short(id), m.id)
			}
		}
	}
}

// endless reports whether allocs of a job stay unknown until their node is back.
func (w *world) endless(job string) bool {
	return slices.ContainsFunc(w.jobs, func(s *spec) bool {
		return s.ID == job && (s.Disconnect == "endless" || s.Disconnect == "prevent_reschedule_on_lost")
	})
}

func (w *world) typeOf(job string) string {
	return w.jobs[slices.IndexFunc(w.jobs, func(s *spec) bool { return s.ID == job })].Type
}

func (w *world) wholeJob(s *spec, anew bool) {
	v := w.store.View()
	job := v.JobByID("default", s.ID)
	want := 0
	if !job.Stopped() {
		want = job.TaskGroups[0].Count
		if s.Type == model.JobTypeSystem && want > 0 {
			want = len(w.machines)
			if w.gone != "" {
				want--
			}
		}
	}
	running, held, old, awaited := 0, 0, 0, 0
	for _, a := range v.AllocsByJob("default", s.ID) {
		switch {
		case job != nil && !job.Owns(a):
		case a.NodeID == w.gone && job != nil && !replaces(job.TaskGroups[0]) && a.NextAllocation == "":
			held++ // lost or unknown, and not to be replaced
			awaited++
		case a.ServerTerminalStatus():
		case a.ClientStatus == model.AllocClientStatusRunning:
			running++
			if job != nil && a.JobVersion != job.Version {
				old++
			}
		case !hasHeir(v, a), s.Type == model.JobTypeBatch && a.ClientStatus == model.AllocClientStatusComplete:
			held++ // failed without attempts, or done
		}
	}
	d := v.LatestDeployment("default", s.ID)
	halted := d != nil && d.Status == model.DeploymentStatusFailed && d.TaskGroups["g"].PlacedAllocs > 0
	switch {
	case anew && w.gone != "" && w.endless(s.ID) && running < want && running+held >= want:
	case anew && (running != want || old > 0):
		w.brokenf("job %s at rest: %d allocs run, %d of them of older versions, it wants %d", s.ID, running, old, want)
	case running > want && !halted:
		w.brokenf("job %s at rest: %d allocs run, it wants %d", s.ID, running, want)
	case running+held < want && !halted:
		w.brokenf("job %s at rest: only %d allocs run and %d hold a place, it wants %d", s.ID, running, held, want)
	case s.Reschedule == "unlimited" && s.Type == model.JobTypeService && running+awaited < want && !halted:
		w.brokenf("job %s at rest: %d allocs run, it wants %d", s.ID, running, want)
	}
}

// hasHeir reports whether an alloc has a successor that has not been stopped, or that
// others have succeeded.
func hasHeir(v *state.View, a *model.Allocation) bool {
	next := v.AllocByID(a.NextAllocation)
	return next != nil && (!next.ServerTerminalStatus() || hasHeir(v, next))
}

func (w *world) nodeEvals(id string) []*model.Evaluation {
	v := w.store.View()
	n := v.NodeByID(id)
	if n == nil {
		return nil
	}
	return slices.Clone(evalsOfNode(w, n))
}
