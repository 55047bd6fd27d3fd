// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package gc owns the garbage collection of state: evals with their allocs,
// deployments, dead jobs and nodes that are down, once they have been over for
// longer than a threshold. Ages are taken from the objects' own times, so a
// restart or a new leader forgets nothing. Alloc directories are the business
// of the nodes (core/agent). core/server imports it.
package gc

import (
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// Thresholds are how long things are kept after they are over.
type Thresholds struct {
	Eval       time.Duration // evals of service jobs, and their allocs
	BatchEval  time.Duration // evals of batch jobs, and their allocs
	Job        time.Duration
	Deployment time.Duration
	Node       time.Duration
}

// DefaultThresholds are those of the reference.
func DefaultThresholds() Thresholds {
	return Thresholds{Eval: time.Hour, BatchEval: 24 * time.Hour, Job: 4 * time.Hour, Deployment: time.Hour, Node: 24 * time.Hour}
}

const (
	// interval is how often the state is looked through.
	interval = 5 * time.Minute
	// chunk bounds the number of ids in one command.
	chunk = 4096
	// key is the one thing that this controller looks after: all of the state.
	key = "state"
)

// Controller collects at intervals.
type Controller struct{ Thresholds Thresholds }

var _ control.Controller = Controller{}

// Name returns "gc".
func (Controller) Name() string { return "gc" }

// Reads is empty: time wakes the controller, not change.
func (Controller) Reads() []string { return []string{state.TableSchedulerConfig} }

// Writes lists what its commands delete from.
func (Controller) Writes() []string {
	return []string{state.TableEvals, state.TableAllocs, state.TableDeployments, state.TableJobs, state.TableNodes}
}

// Keys returns nothing: see Reads.
func (Controller) Keys(state.Change) []string { return nil }

// All returns the one key.
func (Controller) All(*state.View) []string { return []string{key} }

// Decide collects what is over.
func (c Controller) Decide(in control.Input, _ string) (control.Decision, error) {
	return control.Decision{Commands: Collect(in.View, in.Now, c.Thresholds), Wake: in.Now.Add(interval)}, nil
}

// Collect returns the commands that remove what has been over for longer than
// the thresholds; zero thresholds remove all that is over.
func Collect(v *state.View, now time.Time, t Thresholds) []fsm.Command {
	w := &work{view: v, now: now, t: t}
	w.jobs()
	w.evals()
	w.deployments()
	w.nodes()
	return w.commands()
}

type work struct {
	view *state.View
	now  time.Time
	t    Thresholds

	deadJobs      map[model.JobKey]bool
	evalIDs       []string
	allocIDs      []string
	deploymentIDs []string
	nodeIDs       []string
	allocGone     map[string]bool
}

// over reports whether something that ended at ns has been over for d.
func (w *work) over(ns int64, d time.Duration) bool {
	return ns <= w.now.Add(-d).UnixNano()
}

// jobs finds dead jobs of which nothing is left to wait for.
func (w *work) jobs() {
	w.deadJobs = map[model.JobKey]bool{}
	for j := range w.view.Jobs("") {
		if j.Status != model.JobStatusDead || !w.over(j.SubmitTime, w.t.Job) {
			continue
		}
		if !j.Stop && (j.IsPeriodic() || j.IsParameterized()) {
			continue
		}
		if w.jobOver(j) {
			w.deadJobs[j.Key()] = true
		}
	}
}

func (w *work) jobOver(j *model.Job) bool {
	for _, e := range w.view.EvalsByJob(j.Namespace, j.ID) {
		if !e.TerminalStatus() || !w.over(e.ModifyTime, w.t.Job) {
			return false
		}
	}
	for _, a := range w.view.AllocsByJob(j.Namespace, j.ID) {
		if !a.ClientTerminalStatus() || !w.over(a.ModifyTime, w.t.Job) {
			return false
		}
	}
	return true
}

// evals finds evals that are over, with allocs that are over and were not replaced.
func (w *work) evals() {
	w.allocGone = map[string]bool{}
	for e := range w.view.Evals() {
		threshold := w.t.Eval
		if e.Type == model.JobTypeBatch || e.Type == model.JobTypeSysBatch {
			threshold = w.t.BatchEval
		}
		dead := w.deadJobs[model.JobKey{Namespace: e.Namespace, ID: e.JobID}]
		if !e.TerminalStatus() || !dead && !w.over(e.ModifyTime, threshold) {
			continue
		}
		gone, all := w.evalAllocs(e, dead, threshold)
		w.allocIDs = append(w.allocIDs, gone...)
		if all {
			w.evalIDs = append(w.evalIDs, e.ID)
		}
	}
}

// evalAllocs returns the allocs of an eval that may go, and whether that is all of them.
func (w *work) evalAllocs(e *model.Evaluation, jobDead bool, threshold time.Duration) (gone []string, all bool) {
	all = true
	for _, a := range w.view.AllocsByEval(e.ID) {
		if jobDead || w.allocOver(a, threshold) {
			gone = append(gone, a.ID)
			w.allocGone[a.ID] = true
		} else {
			all = false
		}
	}
	return gone, all
}

// allocOver reports whether nothing needs the alloc any more. A batch alloc
// that ended is what tells the scheduler that its work is done: it stays as
// long as its job does.
func (w *work) allocOver(a *model.Allocation, threshold time.Duration) bool {
	if !a.ClientTerminalStatus() || !w.over(a.ModifyTime, threshold) {
		return false
	}
	job := w.view.JobByID(a.Namespace, a.JobID)
	if job == nil || job.Stop {
		return true
	}
	if a.FollowupEvalID != "" {
		if f := w.view.EvalByID(a.FollowupEvalID); f != nil && !f.TerminalStatus() {
			return false
		}
	}
	if job.Type == model.JobTypeBatch || job.Type == model.JobTypeSysBatch {
		return a.NextAllocation != ""
	}
	return a.ServerTerminalStatus() || a.NextAllocation != ""
}

// deployments finds deployments that are over and have no alloc that is not.
func (w *work) deployments() {
	for d := range w.view.Deployments() {
		if d.Active() || !w.over(d.ModifyTime, w.t.Deployment) && !w.deadJobs[model.JobKey{Namespace: d.Namespace, ID: d.JobID}] {
			continue
		}
		used := false
		for _, a := range w.view.AllocsByDeployment(d.ID) {
			used = used || !a.TerminalStatus() && !w.allocGone[a.ID]
		}
		if !used {
			w.deploymentIDs = append(w.deploymentIDs, d.ID)
		}
	}
}

// nodes finds nodes that are down and run nothing.
func (w *work) nodes() {
	for n := range w.view.Nodes() {
		if !n.TerminalStatus() || !w.over(n.StatusUpdatedAt*int64(time.Second), w.t.Node) {
			continue
		}
		used := false
		for _, a := range w.view.AllocsByNode(n.ID) {
			used = used || !a.TerminalStatus()
		}
		if !used {
			w.nodeIDs = append(w.nodeIDs, n.ID)
		}
	}
}

func (w *work) commands() []fsm.Command {
	var out []fsm.Command
	for len(w.evalIDs)+len(w.allocIDs) > 0 {
		e, a := min(len(w.evalIDs), chunk), min(len(w.allocIDs), chunk)
		out = append(out, &fsm.DeleteEvals{EvalIDs: w.evalIDs[:e], AllocIDs: w.allocIDs[:a]})
		w.evalIDs, w.allocIDs = w.evalIDs[e:], w.allocIDs[a:]
	}
	if len(w.deploymentIDs) > 0 {
		out = append(out, &fsm.DeleteDeployments{IDs: w.deploymentIDs})
	}
	for k := range w.view.Jobs("") {
		if w.deadJobs[k.Key()] {
			out = append(out, &fsm.DeregisterJob{Namespace: k.Namespace, ID: k.ID, Purge: true})
		}
	}
	if len(w.nodeIDs) > 0 {
		out = append(out, &fsm.DeregisterNodes{IDs: w.nodeIDs})
	}
	return out
}
