// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package deploy owns the controller of deployments. It replaces unhealthy allocs,
// promotes canaries automatically, requests evaluations for the next step, and ends
// every deployment: as successful, as failed at the progress deadline that is stored
// with it, or, in groups without a progress deadline, as failed at the first unhealthy
// alloc. It does not place or stop allocs; core/schedule does. core/server imports it.
//
//	running --all healthy, promoted------------> successful
//	   |  --unhealthy alloc, no deadline-------> failed (job reverted with auto_revert)
//	   |  --no progress until RequireProgressBy-> failed (job reverted with auto_revert)
//	   `--newer version, stopped job-----------> cancelled (by the scheduler)
package deploy

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// Controller handles one deployment per key, its id.
type Controller struct{}

var _ control.Controller = Controller{}

var declaration = control.Declaration{
	Name:  "deployments",
	Wakes: []string{state.TableDeployments, state.TableAllocs},
	Reads: []string{state.TableDeployments, state.TableAllocs, state.TableEvals, state.TableJobVersions},
	Writes: []fsm.Command{
		(*fsm.UpdateDeploymentStatus)(nil), (*fsm.PromoteDeployment)(nil), (*fsm.UpdateDesiredTransitions)(nil), (*fsm.UpsertEvals)(nil),
	},
}

// Declare returns what the controller may touch.
func (Controller) Declare() control.Declaration { return declaration }

// Keys returns the id of the deployment that a change concerns.
func (Controller) Keys(c state.Change) []string {
	switch obj := c.New.(type) {
	case *model.Deployment:
		return []string{obj.ID}
	case *model.Allocation:
		if obj.DeploymentID != "" {
			return []string{obj.DeploymentID}
		}
	}
	return nil
}

// All returns the deployments that have not ended.
func (Controller) All(v control.View) []string {
	var ids []string
	for d := range v.Deployments() {
		if d.Active() {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// Decide returns the next action for a deployment.
func (Controller) Decide(in control.Input, id string) (control.Decision, error) {
	d := in.View.DeploymentByID(id)
	if d == nil || d.Status != model.DeploymentStatusRunning {
		return control.Decision{}, nil
	}
	job := in.View.JobByVersion(d.Namespace, d.JobID, d.JobVersion)
	if job == nil {
		return control.Decision{}, nil // purged: the scheduler cancels the deployment
	}
	w := &work{in: in, d: d, job: job, allocs: in.View.AllocsByDeployment(id)}
	switch {
	case w.failsAtOnce():
		return w.fail(model.DeploymentStatusDescriptionFailedAllocations), nil
	case w.pastDeadline():
		return w.fail(model.DeploymentStatusDescriptionProgressDeadline), nil
	case w.d.Done():
		return w.succeed(), nil
	case w.autoPromotable():
		return w.promote(), nil
	}
	return w.step(), nil
}

// work is the input of one decision.
type work struct {
	in     control.Input
	d      *model.Deployment
	job    *model.Job
	allocs []*model.Allocation
}

// failsAtOnce reports whether an unhealthy or failed alloc ends the deployment without
// waiting for the deadline: groups without a progress deadline. An alloc may fail after
// it was healthy, or without a word about its health.
func (w *work) failsAtOnce() bool {
	for _, a := range w.allocs {
		failed := a.ClientStatus == model.AllocClientStatusFailed && !a.ServerTerminalStatus()
		if g := w.d.TaskGroups[a.TaskGroup]; g != nil && g.ProgressDeadline == 0 && (failed || a.DeploymentStatus.IsUnhealthy()) {
			return true
		}
	}
	return false
}

// pastDeadline reports whether an incomplete group has not progressed before its
// deadline.
func (w *work) pastDeadline() bool {
	for name, g := range w.d.TaskGroups {
		if !g.Done() && !w.waitsForPromotion(name, g) && !g.RequireProgressBy.IsZero() && !w.in.Now.Before(g.RequireProgressBy) {
			return true
		}
	}
	return false
}

// waitsForPromotion reports whether the canaries are healthy and wait for a manual
// promotion. Other healthy allocs of the group do not count.
func (w *work) waitsForPromotion(name string, g *model.DeploymentState) bool {
	return g.DesiredCanaries > 0 && !g.Promoted && !g.AutoPromote && w.healthyCanaries()[name] >= g.DesiredCanaries
}

// healthyCanaries returns the number of healthy canaries by group.
func (w *work) healthyCanaries() map[string]int {
	healthy := map[string]int{}
	for _, a := range w.allocs {
		if a.DeploymentStatus.IsCanary() && a.DeploymentStatus.IsHealthy() && !a.TerminalStatus() {
			healthy[a.TaskGroup]++
		}
	}
	return healthy
}

// autoPromotable reports whether every group with canaries has auto_promote and all
// its canaries are healthy.
func (w *work) autoPromotable() bool {
	healthy, canaries := w.healthyCanaries(), false
	for name, g := range w.d.TaskGroups {
		if g.DesiredCanaries == 0 || g.Promoted {
			continue
		}
		if !g.AutoPromote || healthy[name] < g.DesiredCanaries {
			return false
		}
		canaries = true
	}
	return canaries
}

func (w *work) succeed() control.Decision {
	return control.Decision{Commands: []fsm.Command{&fsm.UpdateDeploymentStatus{
		Update: w.status(model.DeploymentStatusSuccessful, model.DeploymentStatusDescriptionSuccessful),
		Eval:   w.eval(),
	}}}
}

func (w *work) promote() control.Decision {
	return control.Decision{Commands: []fsm.Command{&fsm.PromoteDeployment{
		DeploymentID: w.d.ID, All: true, Eval: w.eval(), UpdatedAt: w.in.Now.UnixNano(),
	}}}
}

// fail fails the deployment. If an incomplete group has auto_revert, it registers the
// newest stable version again.
func (w *work) fail(why string) control.Decision {
	cmd := &fsm.UpdateDeploymentStatus{Eval: w.eval()}
	if w.wantsRevert() {
		stable := w.d.RevertTarget(w.in.View.JobVersions(w.d.Namespace, w.d.JobID))
		if stable == nil {
			why += " - no stable job version to auto revert to"
		} else {
			why += fmt.Sprintf(" - rolling back to job version %d", stable.Version)
			cmd.Job = stable
		}
	}
	cmd.Update = w.status(model.DeploymentStatusFailed, why)
	return control.Decision{Commands: []fsm.Command{cmd}}
}

func (w *work) wantsRevert() bool {
	for _, g := range w.d.TaskGroups {
		if g.AutoRevert && !g.Done() {
			return true
		}
	}
	return false
}

// step replaces unhealthy allocs, and requests an evaluation if the scheduler has not
// processed the newest changes.
func (w *work) step() control.Decision {
	out := control.Decision{Wake: w.nextDeadline()}
	transitions := map[string]model.DesiredTransition{}
	var newest uint64
	for _, a := range w.allocs {
		if s := a.DeploymentStatus; s != nil && s.Healthy != nil {
			newest = max(newest, s.ModifyIndex)
		}
		if a.DeploymentStatus.IsUnhealthy() && !a.ServerTerminalStatus() && !a.DesiredTransition.ShouldReschedule() && a.NextAllocation == "" {
			yes := true
			t := a.DesiredTransition
			t.Reschedule = &yes
			transitions[a.ID] = t
		}
	}
	switch {
	case len(transitions) > 0:
		out.Commands = []fsm.Command{&fsm.UpdateDesiredTransitions{Transitions: transitions, Evals: []*model.Evaluation{w.eval()}}}
	case newest > w.seen():
		out.Commands = []fsm.Command{&fsm.UpsertEvals{Evals: []*model.Evaluation{w.eval()}}}
	}
	return out
}

// seen returns the newest state that an eval of the job has processed, or infinity if
// one is still pending.
func (w *work) seen() uint64 {
	var seen uint64
	for _, e := range w.in.View.EvalsByJob(w.d.Namespace, w.d.JobID) {
		if e.Status == model.EvalStatusPending && e.WaitUntil.IsZero() {
			return ^uint64(0)
		}
		seen = max(seen, e.SnapshotIndex)
	}
	return seen
}

func (w *work) nextDeadline() time.Time {
	var next time.Time
	for name, g := range w.d.TaskGroups {
		if g.Done() || w.waitsForPromotion(name, g) || g.RequireProgressBy.IsZero() {
			continue
		}
		if next.IsZero() || g.RequireProgressBy.Before(next) {
			next = g.RequireProgressBy
		}
	}
	return next
}

func (w *work) status(status, why string) *model.DeploymentStatusUpdate {
	return &model.DeploymentStatusUpdate{DeploymentID: w.d.ID, Status: status, StatusDescription: why, UpdatedAt: w.in.Now.UnixNano()}
}

func (w *work) eval() *model.Evaluation {
	e := model.NewEvaluation(w.in.NewID(), model.EvalTriggerDeploymentWatcher, w.job, w.in.Now)
	e.DeploymentID = w.d.ID
	if w.d.EvalPriority > 0 {
		e.Priority = w.d.EvalPriority
	}
	return e
}
