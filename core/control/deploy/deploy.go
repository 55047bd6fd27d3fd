// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package deploy owns the controller of deployments. It replaces unhealthy allocs,
// promotes canaries automatically, requests evaluations for the next step, and ends
// every deployment: as successful, as failed at the progress deadline that is stored
// with it, or, as soon as it cannot succeed any more, as failed at once. It does not place or
// stop allocs; core/schedule does. core/server imports it.
//
//	running --all healthy, promoted------------> successful
//	   |  --unhealthy alloc, no deadline-------> failed (job reverted with auto_revert)
//	   |  --unhealthy alloc, not replaced------> failed (job reverted with auto_revert)
//	   |  --no progress until RequireProgressBy-> failed (job reverted with auto_revert)
//	   |  --limit of a dependency passes-------> failed (job reverted with auto_revert)
//	   `--newer version, stopped job-----------> cancelled (by the scheduler)
package deploy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
	"github.com/drover-project/drover/core/state"
)

// Controller handles one deployment per key, its id.
type Controller struct{}

var _ control.Controller = Controller{}

var declaration = control.Declaration{
	Name:  "deployments",
	Wakes: []string{state.TableDeployments, state.TableAllocs},
	Reads: []string{state.TableDeployments, state.TableAllocs, state.TableEvals, state.TableJobs, state.TableJobVersions},
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
		return control.Decision{}, nil // so many newer ones that it is not kept: the scheduler cancels the deployment
	}
	w := &work{in: in, d: d, job: job, allocs: in.View.AllocsByDeployment(id)}
	hopeless, waited := w.hopeless(), w.waited()
	switch {
	case w.failsAtOnce():
		return w.fail(model.DeploymentStatusDescriptionFailedAllocations), nil
	case hopeless != "":
		return w.fail(model.DeploymentStatusDescriptionFailedAllocations + " - " + hopeless), nil
	case waited != "":
		return w.fail(descDependency + " - " + waited), nil
	case w.pastDeadline():
		return w.fail(model.DeploymentStatusDescriptionProgressDeadline), nil
	case w.d.Done():
		return w.succeed(), nil
	}
	if groups := w.autoPromotable(); len(groups) > 0 {
		return w.promote(groups), nil
	}
	return w.step(), nil
}

// work is the input of one decision.
type work struct {
	in     control.Input
	d      *model.Deployment
	job    *model.Job
	allocs []*model.Allocation

	canaries map[string]int         // what healthyCanaries returns; nil: not counted yet
	held     map[string]*model.Hold // what holds returns; nil: not looked at yet
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

// hopeless says why the deployment can never succeed, "" if it still can: a group needs an
// alloc that has failed or is unhealthy, and nothing replaces that one. Then its room for
// further updates is gone as well, so waiting for the deadline changes nothing.
func (w *work) hopeless() string {
	for _, a := range w.allocs {
		g := w.d.TaskGroups[a.TaskGroup]
		if g == nil || g.Done() || a.ServerTerminalStatus() || !a.DeploymentStatus.IsUnhealthy() && a.ClientStatus != model.AllocClientStatusFailed {
			continue
		}
		if why := reconcile.Irreplaceable(w.job, a); why != "" {
			return fmt.Sprintf("allocation %s of group %q is unhealthy, and %s", short(a.ID), a.TaskGroup, why)
		}
	}
	return ""
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

// waitsForPromotion reports whether the canaries are healthy and wait for their promotion: by
// a person, or, with auto_promote, until the canaries of the other groups are healthy too,
// whose deadlines end the deployment if they do not become so. Other healthy allocs of the
// group do not count.
func (w *work) waitsForPromotion(name string, g *model.DeploymentState) bool {
	return g.DesiredCanaries > 0 && !g.Promoted && w.healthyCanaries()[name] >= g.DesiredCanaries
}

// healthyCanaries returns the number of healthy canaries by group.
func (w *work) healthyCanaries() map[string]int {
	if w.canaries != nil {
		return w.canaries
	}
	w.canaries = map[string]int{}
	for _, a := range w.allocs {
		if a.DeploymentStatus.IsCanary() && a.DeploymentStatus.IsHealthy() && !a.TerminalStatus() {
			w.canaries[a.TaskGroup]++
		}
	}
	return w.canaries
}

// autoPromotable returns the groups whose canaries are to be promoted, if every group that
// waits for a promotion has auto_promote and all its canaries are healthy. Groups that
// somebody has promoted already are not promoted again: their canaries may be gone.
func (w *work) autoPromotable() (groups []string) {
	healthy := w.healthyCanaries()
	groups = w.d.Unpromoted()
	if slices.ContainsFunc(groups, func(name string) bool {
		g := w.d.TaskGroups[name]
		return !g.AutoPromote || healthy[name] < g.DesiredCanaries
	}) {
		return nil
	}
	return groups
}

func (w *work) succeed() control.Decision {
	return control.Decision{Commands: []fsm.Command{&fsm.UpdateDeploymentStatus{
		Update: w.status(model.DeploymentStatusSuccessful, model.DeploymentStatusDescriptionSuccessful),
		Eval:   w.eval(),
	}}}
}

func (w *work) promote(groups []string) control.Decision {
	return control.Decision{Commands: []fsm.Command{&fsm.PromoteDeployment{
		DeploymentID: w.d.ID, Groups: groups, Eval: w.eval(), UpdatedAt: w.in.Now.UnixNano(),
	}}}
}

// fail fails the deployment. If an incomplete group has auto_revert, it registers the
// newest stable version again.
func (w *work) fail(why string) control.Decision {
	to, reason := w.rollback()
	if reason != "" {
		why += " - " + reason
	}
	if to != nil { // the limits of what it depends on are counted from now
		again := *to
		again.SubmitTime = w.in.Now.UnixNano()
		to = &again
	}
	return control.Decision{Commands: []fsm.Command{&fsm.UpdateDeploymentStatus{
		Update: w.status(model.DeploymentStatusFailed, why), Eval: w.eval(), Job: to,
	}}}
}

// rollback returns the version to which the job is rolled back, nil if it is not, and why;
// "" if no group asks for it.
func (w *work) rollback() (to *model.Job, why string) {
	var complete []string // of the groups that ask for it
	for name, g := range w.d.TaskGroups {
		switch {
		case !g.AutoRevert:
		case g.Done():
			complete = append(complete, name)
		default:
			return w.d.Rollback(w.in.View.JobVersions(w.d.Namespace, w.d.JobID))
		}
	}
	if len(complete) == 0 {
		return nil, ""
	}
	slices.Sort(complete)
	return nil, fmt.Sprintf("not rolling back as auto_revert is set only in groups that are complete: %s", strings.Join(complete, ", "))
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
	for _, h := range w.holds() {
		if !h.Until.IsZero() && (next.IsZero() || h.Until.Before(next)) {
			next = h.Until
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
