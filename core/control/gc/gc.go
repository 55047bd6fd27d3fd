// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package gc owns the garbage collection of state: evals with their allocs,
// deployments, dead jobs, nodes that are down and schemas of drivers that no node
// has, once they have been over for longer than a threshold. Ages are taken from the objects' own times, so a
// restart or a new leader forgets nothing. Alloc directories are the business
// of the nodes (core/agent). core/server imports it.
package gc

import (
	"math"
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
	// DriverSchema is how long jobs are checked against a driver that no node has
	// any more.
	DriverSchema time.Duration
	Interval     time.Duration // how often the state is looked through; 0 is 5 minutes
}

// DefaultThresholds are those of the reference.
func DefaultThresholds() Thresholds {
	return Thresholds{Eval: time.Hour, BatchEval: 24 * time.Hour, Job: 4 * time.Hour, Deployment: time.Hour, Node: 24 * time.Hour, DriverSchema: 72 * time.Hour}
}

const (
	defaultInterval = 5 * time.Minute
	// chunk bounds the number of ids in one command, most the number of objects
	// that one decision, which is one log entry, removes.
	chunk = 4096
	most  = 4 * chunk
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
	return []string{state.TableEvals, state.TableAllocs, state.TableDeployments, state.TableJobs, state.TableNodes, state.TableDriverSchemas}
}

// Keys returns nothing: see Reads.
func (Controller) Keys(state.Change) []string { return nil }

// All returns the one key.
func (Controller) All(*state.View) []string { return []string{key} }

// Decide collects what is over; if that is much, it goes on at once with the rest.
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

// Collect returns the commands that remove what has been over for longer than
// the thresholds; zero thresholds remove all that is over.
func Collect(v *state.View, now time.Time, t Thresholds) []fsm.Command {
	return collect(v, now, t).commands(math.MaxInt)
}

func collect(v *state.View, now time.Time, t Thresholds) *work {
	w := &work{view: v, now: now, t: t, deadJobs: map[model.JobKey]bool{}, allocGone: map[string]bool{}}
	w.jobs()
	w.evals()
	w.deployments()
	w.nodes()
	w.driverSchemas()
	return w
}

type work struct {
	view *state.View
	now  time.Time
	t    Thresholds

	deadJobs      map[model.JobKey]bool
	purge         []*model.Job // the same, in order
	evalIDs       []string
	allocIDs      []string
	deploymentIDs []string
	nodeIDs       []string
	unusedSchemas []string // to be marked: seen without a node for the first time
	oldSchemas    []string
	allocGone     map[string]bool
}

// over reports whether something that ended at ns has been over for d.
func (w *work) over(ns int64, d time.Duration) bool {
	return ns <= w.now.Add(-d).UnixNano()
}

// jobs finds dead jobs of which nothing is left to wait for.
func (w *work) jobs() {
	for j := range w.view.Jobs("") {
		if j.Status == model.JobStatusDead && ends(j) && w.over(j.SubmitTime, w.t.Job) && w.jobOver(j) {
			w.deadJobs[j.Key()] = true
			w.purge = append(w.purge, j)
			for _, a := range w.view.AllocsByJob(j.Namespace, j.ID) { // their evals may be gone already
				w.drop(a)
			}
		}
	}
}

// ends reports whether a job that is dead may be forgotten: a user stopped it,
// or it is one that comes to its end by itself. A service whose allocs have all
// failed is still wanted, and a job that makes children makes more of them. A job
// with a tagged version is kept: somebody wants to find it again.
func ends(j *model.Job) bool {
	if j.VersionTag != nil {
		return false
	}
	batch := j.Type == model.JobTypeBatch || j.Type == model.JobTypeSysBatch
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

// evals finds evals that are over, with allocs that are over and were not replaced.
func (w *work) evals() {
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

// evalAllocs drops the allocs of an eval that may go and reports whether that is all of them.
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

// driverSchemas finds schemas that no node has, as long as it is remembered since
// when that is; with a threshold of zero at once.
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

// since is the time until which a schema that goes must have become unused, 0 for any.
func (w *work) since() int64 {
	if w.t.DriverSchema == 0 {
		return 0
	}
	return w.now.Add(-w.t.DriverSchema).UnixNano()
}

// left is how many objects are found and in no command yet.
func (w *work) left() int {
	return len(w.evalIDs) + len(w.allocIDs) + len(w.deploymentIDs) + len(w.purge) + len(w.nodeIDs) + len(w.unusedSchemas) + len(w.oldSchemas)
}

// commands returns the commands that remove about limit objects of what was
// found. Allocs and evals go before their jobs. Jobs and nodes are spared if they
// have changed by the time that their command is applied.
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

// take cuts the next chunk off a list.
func take[T any](list *[]T) []T {
	n := min(len(*list), chunk)
	head := (*list)[:n]
	*list = (*list)[n:]
	return head
}
