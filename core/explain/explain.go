// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package explain says in words why jobs, evaluations, allocs, deployments and nodes are as
// they are and what they wait for. It asks the code that decides (core/schedule,
// core/control/deploy) and decides nothing; everything is derived from one state.
package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
)

// Of is what explanations depend on.
type Of struct {
	View *state.View
	Now  time.Time
	IDs  schedule.IDSource
}

func short(id string) string { return id[:min(8, len(id))] }

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Job explains what a job waits for and where more of it could run.
func (o Of) Job(job *model.Job) *model.Explanation {
	out := &model.Explanation{ID: job.ID}
	switch {
	case job.Stop:
		out.Says = append(out.Says, "The job is stopped: nothing of it is placed.")
	case job.IsPeriodic() || job.IsParameterized():
		out.Says = append(out.Says, "The job is a template: only its children run.")
	default:
		out.Groups = schedule.Explain(o.View, job, o.Now, o.IDs)
		out.Says = append(out.Says, o.holds(job)...)
		out.Says = append(out.Says, Summaries(out.Groups)...)
		out.Says = append(out.Says, o.tasksOf(job)...)
	}
	for _, e := range o.open(job.Namespace, job.ID) {
		out.Says = append(out.Says, fmt.Sprintf("Evaluation %s (%s) is %s. %s", short(e.ID), e.TriggeredBy, e.Status, strings.Join(o.waits(e), " ")))
	}
	if d := o.View.LatestDeployment(job.Namespace, job.ID); d != nil && d.JobVersion == job.Version && d.JobCreateIndex == job.CreateIndex && d.Status != model.DeploymentStatusSuccessful {
		out.Says = append(out.Says, fmt.Sprintf("Deployment %s of version %d is %s.", short(d.ID), d.JobVersion, d.Status))
		if absent := func(g *model.GroupExplanation) bool { return g.Absent > 0 }; d.Status == model.DeploymentStatusFailed && slices.ContainsFunc(out.Groups, absent) {
			out.Says = append(out.Says, o.failed(job, out.Groups)...)
			out.Says = append(out.Says, "A version whose deployment has failed gets no allocations that it never had; those that fail or are lost are still replaced. Register a changed job, or go back with drover job revert.")
		}
		out.Says = append(out.Says, deploy.Standing(o.View, d, o.Now)...)
	} else if !job.Stop {
		out.Says = append(out.Says, o.failed(job, out.Groups)...)
	}
	return out
}

// maxFailed is how many failed allocs the explanation of a job names.
const maxFailed = 3

// failed says what becomes of failed allocs of groups that lack some.
func (o Of) failed(job *model.Job, groups []*model.GroupExplanation) (out []string) {
	lacking := map[string]bool{}
	for _, g := range groups {
		lacking[g.Group] = g.Absent > 0
	}
	for _, a := range o.View.AllocsByJob(job.Namespace, job.ID) {
		if !lacking[a.TaskGroup] || a.ClientStatus != model.AllocClientStatusFailed || a.ServerTerminalStatus() || a.NextAllocation != "" || len(out) == maxFailed {
			continue
		}
		out = append(out, fmt.Sprintf("Allocation %s has failed. %s", short(a.ID), strings.Join(o.fate(a), " ")))
	}
	return out
}

// Summaries says in one sentence for each group whether its allocs find a place.
func Summaries(groups []*model.GroupExplanation) (out []string) {
	for _, g := range groups {
		if g.Missing == 0 && g.Held > 0 {
			out = append(out, fmt.Sprintf("Group %q: %d allocations wait for dependencies; %d of %d nodes could take one more.", g.Group, g.Held, g.Open, g.Nodes))
			continue
		}
		if g.Absent > 0 {
			out = append(out, fmt.Sprintf("Group %q: %d allocations are lacking that nothing places now; %d of %d nodes could take one more.", g.Group, g.Absent, g.Open, g.Nodes))
		}
		if g.Missing == 0 && g.Absent > 0 {
			continue
		}
		if g.Missing == 0 {
			out = append(out, fmt.Sprintf("Group %q: there is a place for every allocation, and %d of %d nodes could take one more.", g.Group, g.Open, g.Nodes))
			continue
		}
		counts := map[string]int{}
		for _, c := range g.Classes {
			for why, n := range c.Refused {
				counts[why] += n
			}
		}
		reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
		var words []string
		for _, why := range reasons[:min(len(reasons), 5)] {
			words = append(words, fmt.Sprintf("%s (%d)", why, counts[why]))
		}
		if len(words) == 0 {
			words = []string{"there is no node"}
		}
		out = append(out, fmt.Sprintf("Group %q: %d allocations find no place on %d nodes: %s.", g.Group, g.Missing, g.Nodes, strings.Join(words, ", ")))
		for _, r := range g.Remedies[:min(len(g.Remedies), 3)] {
			out = append(out, "It would help: "+remedy(r)+".")
		}
	}
	return out
}

func remedy(r *model.Remedy) string {
	if r.Missing == 0 {
		return r.Change
	}
	return fmt.Sprintf("%s (%d would still be missing)", r.Change, r.Missing)
}

// open returns the evaluations of a job that have not ended, oldest first.
func (o Of) open(ns, job string) (out []*model.Evaluation) {
	for _, e := range o.View.EvalsByJob(ns, job) {
		if !e.TerminalStatus() {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *model.Evaluation) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	return out
}

// Eval explains what an evaluation waits for, or what came of it.
func (o Of) Eval(e *model.Evaluation) *model.Explanation {
	out := &model.Explanation{ID: e.ID, Says: o.waits(e)}
	job := o.View.JobByID(e.Namespace, e.JobID)
	if job == nil || job.Stop || e.Status == model.EvalStatusCancelled {
		return out
	}
	if len(e.Held) > 0 && e.TerminalStatus() {
		out.Says = append(out.Says, o.holds(job)...)
	}
	if len(e.FailedTGAllocs) == 0 {
		return out
	}
	out.Groups = schedule.Explain(o.View, job, o.Now, o.IDs, slices.Sorted(maps.Keys(e.FailedTGAllocs))...)
	if e.TerminalStatus() {
		out.Says = append(out.Says, "As things are now:")
	}
	out.Says = append(out.Says, Summaries(out.Groups)...)
	return out
}

// waits says what an evaluation waits for and what wakes it, or how it ended.
func (o Of) waits(e *model.Evaluation) []string {
	switch e.Status {
	case model.EvalStatusPending:
		return []string{o.pending(e)}
	case model.EvalStatusBlocked:
		return o.blocked(e)
	case model.EvalStatusFailed:
		return []string{fmt.Sprintf("It has failed: %s.", cmp.Or(e.StatusDescription, "every attempt failed"))}
	case model.EvalStatusCancelled:
		return []string{fmt.Sprintf("It is canceled: %s.", cmp.Or(e.StatusDescription, "a newer evaluation of the job does its work"))}
	}
	out := []string{fmt.Sprintf("It was carried out at %s on the state of index %d.", at(time.Unix(0, e.ModifyTime)), e.SnapshotIndex)}
	for _, group := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		out = append(out, fmt.Sprintf("It found no place for %d allocations of group %q.", e.FailedTGAllocs[group].CoalescedFailures+1, group))
	}
	out = append(out, o.heldThen(e)...)
	if next := o.View.EvalByID(e.BlockedEval); next != nil && next.Status == model.EvalStatusBlocked {
		what := "room for them"
		if !next.WaitsForRoom() {
			what = "what they depend on"
		}
		out = append(out, fmt.Sprintf("Evaluation %s waits for %s.", short(next.ID), what))
	}
	if next := o.View.EvalByID(e.NextEval); next != nil && !next.TerminalStatus() {
		out = append(out, fmt.Sprintf("Evaluation %s follows at %s.", short(next.ID), at(next.WaitUntil)))
	}
	return out
}

func (o Of) pending(e *model.Evaluation) string {
	switch {
	case e.WaitUntil.After(o.Now):
		return fmt.Sprintf("It waits until %s: %s.", at(e.WaitUntil), cmp.Or(e.StatusDescription, e.TriggeredBy))
	case o.View.SchedulerConfig() != nil && o.View.SchedulerConfig().PauseEvalBroker:
		return "The scheduler is paused: drover operator scheduler set-config -pause-eval-broker=false lets it continue."
	}
	for _, other := range o.open(e.Namespace, e.JobID) {
		if other.ID != e.ID && other.Status == model.EvalStatusPending && other.CreateIndex < e.CreateIndex && !other.WaitUntil.After(o.Now) {
			return fmt.Sprintf("It waits for evaluation %s: the evaluations of a job are carried out one after the other.", short(other.ID))
		}
	}
	return o.turn(e)
}

// turn says what decides when an evaluation that could be carried out is.
func (o Of) turn(e *model.Evaluation) string {
	out := "It waits for a worker of the leader."
	job := o.View.JobByID(e.Namespace, e.JobID)
	if job == nil {
		return out
	}
	rules := model.LaneRulesOf(o.View.SchedulerConfig(), o.View.NodePoolByName(job.NodePool), o.View.NamespaceByName(e.Namespace))
	if rules.Ordered && len(o.View.AllocsByJob(e.Namespace, e.JobID)) == 0 {
		return fmt.Sprintf("It waits for a worker of the leader and for the jobs before it: new jobs of namespace %q in node pool %q are placed in turn. drover operator scheduler queue shows the lane.", e.Namespace, job.NodePool)
	}
	return out
}

// blocked says what wakes a blocked evaluation; core/queue does that.
func (o Of) blocked(e *model.Evaluation) []string {
	out := o.heldNow(e)
	if !e.WaitsForRoom() {
		return append(out, "It is tried again when that is so, at the limit, and when the job is registered again; room on nodes is not what it waits for.")
	}
	for _, group := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		out = append(out, fmt.Sprintf("It waits for room for %d allocations of group %q.", max(e.QueuedAllocations[group], e.FailedTGAllocs[group].CoalescedFailures+1), group))
	}
	nodes, fit := 0, 0
	for n := range o.View.Nodes() {
		nodes++
		if ok, known := e.ClassEligibility[n.ComputedClass]; e.EscapedComputedClass || ok || !known {
			fit++
		}
	}
	return append(out, fmt.Sprintf("It is tried again when something ends on one of %d nodes (of %d) that may meet its constraints, when a node joins or changes, when the configuration of the scheduler changes, and when the job is registered again.", fit, nodes))
}

// Deployment explains what a deployment waits for.
func (o Of) Deployment(d *model.Deployment) *model.Explanation {
	out := &model.Explanation{ID: d.ID, Says: deploy.Standing(o.View, d, o.Now)}
	for _, e := range o.open(d.Namespace, d.JobID) {
		if d.Active() && e.Status == model.EvalStatusBlocked {
			x := o.Eval(e)
			out.Says, out.Groups = append(out.Says, x.Says...), x.Groups
			break
		}
	}
	return out
}
