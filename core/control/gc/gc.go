// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package gc owns the garbage collection of state. It removes evals with their allocs,
// deployments, dead jobs, down nodes and unused driver schemas once they have ended
// longer ago than a threshold. Ages follow from the objects' own times, so a restart
// or a new leader loses none. Alloc directories are collected by nodes (core/agent).
// core/server imports it.
package gc

import (
	"math"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
	"github.com/drover-project/drover/core/state"
)

// Thresholds say how long objects are kept after their end.
type Thresholds struct {
	Eval       time.Duration // evals of service jobs, and their allocs
	BatchEval  time.Duration // evals of batch jobs, and their allocs
	Job        time.Duration
	Deployment time.Duration
	Node       time.Duration
	// DriverSchema is how long jobs are validated against the schema of a driver that
	// no node has any more.
	DriverSchema time.Duration
	Interval     time.Duration // interval of collection; 0 means 5 minutes
}

// DefaultThresholds returns the reference's thresholds.
func DefaultThresholds() Thresholds {
	return Thresholds{Eval: time.Hour, BatchEval: 24 * time.Hour, Job: 4 * time.Hour, Deployment: time.Hour, Node: 24 * time.Hour, DriverSchema: 72 * time.Hour}
}

const (
	defaultInterval = 5 * time.Minute
	// chunk is the maximum number of ids in one command, most the maximum number of
	// objects that one decision, which is one log entry, removes.
	chunk = 4096
	most  = 4 * chunk
	// key is the only key of this controller: the whole state.
	key = "state"
)

// Controller collects garbage at intervals.
type Controller struct{ Thresholds Thresholds }

var _ control.Controller = Controller{}

var declaration = control.Declaration{
	Name: "gc",
	// A controller needs a table that wakes it, but Keys ignores the changes of this
	// one: time alone wakes the collection.
	Wakes: []string{state.TableSchedulerConfig},
	Reads: []string{state.TableEvals, state.TableAllocs, state.TableDeployments, state.TableJobs, state.TableNodes, state.TableDriverSchemas},
	Writes: []fsm.Command{
		(*fsm.DeleteEvals)(nil), (*fsm.DeleteDeployments)(nil), (*fsm.DeregisterJob)(nil), (*fsm.DeregisterNodes)(nil),
		(*fsm.MarkDriverSchemas)(nil), (*fsm.DeleteDriverSchemas)(nil),
	},
}

// Declare returns what the controller may touch.
func (Controller) Declare() control.Declaration { return declaration }

// Keys returns nothing: see declaration.
func (Controller) Keys(state.Change) []string { return nil }

// All returns the only key.
func (Controller) All(control.View) []string { return []string{key} }

// Decide collects ended objects. If there are more than one entry may remove, it
// continues at once.
func (c Controller) Decide(in control.Input, _ string) (control.Decision, error) {
	interval := c.Thresholds.Interval
	if interval <= 0 {
		interval = defaultInterval
	}
	w := collect(in.View, in.Now, c.Thresholds)
	d := control.Decision{Commands: w.commands(most), Wake: in.Now.Add(interval)}
	if w.left() > 0 {
		d.Wake = in.Now
	}
	return d, nil
}

// Collect returns the commands that remove objects which ended longer ago than the
// thresholds; zero thresholds remove all ended objects.
func Collect(v *state.View, now time.Time, t Thresholds) []fsm.Command {
	return collect(control.Restrict(v, declaration), now, t).commands(math.MaxInt)
}

func collect(v control.View, now time.Time, t Thresholds) *work {
	w := &work{view: v, now: now, t: t, deadJobs: map[model.JobKey]bool{}, openJobs: map[model.JobKey]bool{}, allocGone: map[string]bool{}}
	w.jobs()
	w.evals()
	w.deployments()
	w.nodes()
	w.driverSchemas()
	return w
}

type work struct {
	view control.View
	now  time.Time
	t    Thresholds

	deadJobs      map[model.JobKey]bool
	purge         []*model.Job          // the same jobs, in order
	openJobs      map[model.JobKey]bool // with an evaluation that has not ended
	evalIDs       []string
	allocIDs      []string
	deploymentIDs []string
	nodeIDs       []string
	unusedSchemas []string // to be marked: found unused for the first time
	oldSchemas    []string
	allocGone     map[string]bool
}

// over reports whether an object that ended at ns is older than d.
func (w *work) over(ns int64, d time.Duration) bool {
	return ns <= w.now.Add(-d).UnixNano()
}

// jobs finds dead jobs whose evals and allocs have all ended.
func (w *work) jobs() {
	for j := range w.view.Jobs("") {
		if j.Status == model.JobStatusDead && ends(j) && w.over(j.SubmitTime, w.t.Job) && w.jobOver(j) {
			w.deadJobs[j.Key()] = true
			w.purge = append(w.purge, j)
			for _, a := range w.view.AllocsByJob(j.Namespace, j.ID) { // their evals may already be gone
				w.drop(a)
			}
		}
	}
}

// ends reports whether a dead job may be removed: a user stopped it, or its type ends
// by itself. A service whose allocs have all failed is still wanted, and so is a job
// that creates children. A job with a tagged version is kept.
func ends(j *model.Job) bool {
	if j.VersionTag != nil {
		return false
	}
	batch := j.Completes()
	return j.Stop || batch && !j.IsPeriodic() && !j.IsParameterized()
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

// evals finds ended evals with allocs that have ended and were not replaced.
func (w *work) evals() {
	for e := range w.view.Evals() {
		if !e.TerminalStatus() {
			w.openJobs[model.JobKey{Namespace: e.Namespace, ID: e.JobID}] = true
		}
	}
	for e := range w.view.Evals() {
		threshold := w.t.Eval
		if e.Type == model.JobTypeBatch || e.Type == model.JobTypeSysBatch {
			threshold = w.t.BatchEval
		}
		dead := w.deadJobs[model.JobKey{Namespace: e.Namespace, ID: e.JobID}]
		if !e.TerminalStatus() || !dead && !w.over(e.ModifyTime, threshold) {
			continue
		}
		if w.evalAllocs(e, dead, threshold) {
			w.evalIDs = append(w.evalIDs, e.ID)
		}
	}
}

func (w *work) drop(a *model.Allocation) {
	if !w.allocGone[a.ID] {
		w.allocGone[a.ID] = true
		w.allocIDs = append(w.allocIDs, a.ID)
	}
}

// evalAllocs selects the removable allocs of an eval and reports whether these are all
// of them.
func (w *work) evalAllocs(e *model.Evaluation, jobDead bool, threshold time.Duration) bool {
	all := true
	for _, a := range w.view.AllocsByEval(e.ID) {
		if jobDead || w.allocOver(a, threshold) {
			w.drop(a)
		} else {
			all = false
		}
	}
	return all
}

// allocOver reports whether an alloc is no longer needed. An ended batch alloc tells
// the scheduler that its work is done, so it is kept as long as its job.
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
	if job.Completes() {
		return a.NextAllocation != ""
	}
	// While an evaluation waits for room, the scheduler still looks for what has to be replaced.
	waits := reconcile.WasToBeReplaced(a) && w.openJobs[model.JobKey{Namespace: a.Namespace, ID: a.JobID}]
	return a.ServerTerminalStatus() && !waits || a.NextAllocation != ""
}

// deployments finds ended deployments without live allocs.
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

// nodes finds down nodes without allocs.
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

// driverSchemas finds unused schemas that have been unused for longer than the
// threshold, and marks newly unused ones. With a threshold of zero it does not wait.
func (w *work) driverSchemas() {
	for s := range w.view.DriverSchemas() {
		switch {
		case w.view.DriverSchemaInUse(s):
		case w.t.DriverSchema == 0 || s.UnusedSince != 0 && w.over(s.UnusedSince, w.t.DriverSchema):
			w.oldSchemas = append(w.oldSchemas, s.Hash)
		case s.UnusedSince == 0:
			w.unusedSchemas = append(w.unusedSchemas, s.Hash)
		}
	}
}

// since returns the time before which a schema must have become unused to be removed,
// 0 for any time.
func (w *work) since() int64 {
	if w.t.DriverSchema == 0 {
		return 0
	}
	return w.now.Add(-w.t.DriverSchema).UnixNano()
}

// left returns how many of the found objects are in no command yet.
func (w *work) left() int {
	return len(w.evalIDs) + len(w.allocIDs) + len(w.deploymentIDs) + len(w.purge) + len(w.nodeIDs) + len(w.unusedSchemas) + len(w.oldSchemas)
}

// commands returns the commands that remove about limit of the found objects. Allocs
// and evals are removed before their jobs. Applying a command skips jobs and nodes
// that have changed meanwhile.
func (w *work) commands(limit int) []fsm.Command {
	var out []fsm.Command
	for w.left() > 0 && limit > 0 {
		before := w.left()
		switch {
		case len(w.evalIDs)+len(w.allocIDs) > 0:
			out = append(out, &fsm.DeleteEvals{AllocIDs: take(&w.allocIDs), EvalIDs: take(&w.evalIDs)})
		case len(w.deploymentIDs) > 0:
			out = append(out, &fsm.DeleteDeployments{IDs: take(&w.deploymentIDs)})
		case len(w.purge) > 0:
			for _, j := range take(&w.purge) {
				out = append(out, &fsm.DeregisterJob{Namespace: j.Namespace, ID: j.ID, Purge: true, IfModifyIndex: j.ModifyIndex})
			}
		case len(w.unusedSchemas) > 0:
			out = append(out, &fsm.MarkDriverSchemas{Hashes: take(&w.unusedSchemas), At: w.now.UnixNano()})
		case len(w.oldSchemas) > 0:
			out = append(out, &fsm.DeleteDriverSchemas{Hashes: take(&w.oldSchemas), UnusedSince: w.since()})
		default:
			out = append(out, &fsm.DeregisterNodes{IDs: take(&w.nodeIDs), OnlyDown: true})
		}
		limit -= before - w.left()
	}
	return out
}

// take removes the next chunk from a list.
func take[T any](list *[]T) []T {
	n := min(len(*list), chunk)
	head := (*list)[:n]
	*list = (*list)[n:]
	return head
}
