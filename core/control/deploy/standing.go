// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package deploy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
	"github.com/drover-project/drover/core/state"
)

// Standing says in sentences what a deployment waits for, and what will become of it, by the
// rules with which the controller decides.
func Standing(v *state.View, d *model.Deployment, now time.Time) []string {
	switch {
	case !d.Active():
		return []string{fmt.Sprintf("It is %s: %s.", d.Status, d.StatusDescription)}
	case d.Status == model.DeploymentStatusPaused:
		return []string{fmt.Sprintf("It is paused: nothing goes on, and no deadline passes, until drover deployment resume %s.", short(d.ID))}
	}
	w := &work{in: control.Input{View: control.Restrict(v, declaration), Now: now}, d: d, allocs: v.AllocsByDeployment(d.ID)}
	if w.job = v.JobByVersion(d.Namespace, d.JobID, d.JobVersion); w.job == nil {
		return []string{"Newer versions of its job have replaced the one that it rolls out: the scheduler cancels it."}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		out = append(out, w.standing(name, d.TaskGroups[name])...)
	}
	return out
}

func short(id string) string { return id[:min(8, len(id))] }

// standing says what one group waits for.
func (w *work) standing(name string, g *model.DeploymentState) []string {
	if g.Done() {
		return []string{fmt.Sprintf("Group %q is complete: %d of %d allocations are healthy.", name, g.HealthyAllocs, g.DesiredTotal)}
	}
	if w.waitsForPromotion(name, g) {
		return []string{fmt.Sprintf("Group %q: its %d canaries are healthy, and %s.", name, g.DesiredCanaries, w.promoter(g))}
	}
	if h := w.holds()[name]; h != nil {
		return []string{fmt.Sprintf("Group %q %s. Its progress deadline begins when it is released.", name, h.Say(w.in.Now))}
	}
	healthy, starting := 0, 0
	var bad []string
	for _, a := range w.allocs {
		switch {
		case a.TaskGroup != name || a.ServerTerminalStatus():
		case a.DeploymentStatus.IsUnhealthy() || a.ClientStatus == model.AllocClientStatusFailed:
			bad = append(bad, w.successor(a))
		case a.ClientTerminalStatus():
		case a.DeploymentStatus.IsHealthy():
			healthy++
		default:
			starting++
		}
	}
	what, want := "allocations", g.DesiredTotal
	if g.DesiredCanaries > 0 && !g.Promoted {
		what, want = "canaries", g.DesiredCanaries
		healthy = w.healthyCanaries()[name]
	}
	line := fmt.Sprintf("Group %q: %d of %d %s are healthy", name, healthy, want, what)
	if starting > 0 {
		line += fmt.Sprintf(", the health of %d is not known yet", starting)
	}
	if e := w.blockedOn(name); e != nil {
		line += fmt.Sprintf(", and some find no place (drover eval explain %s)", short(e.ID))
	}
	out := append([]string{line + "."}, bad[:min(len(bad), maxBad)]...)
	if len(bad) > maxBad {
		out = append(out, fmt.Sprintf("%d more of its allocations are unhealthy.", len(bad)-maxBad))
	}
	switch {
	case g.ProgressDeadline == 0:
		return append(out, fmt.Sprintf("Group %q has no progress deadline: the first unhealthy allocation fails the deployment.", name))
	case !g.RequireProgressBy.IsZero():
		return append(out, fmt.Sprintf("Unless one more becomes healthy before, the deployment fails at %s.", g.RequireProgressBy.UTC().Format(time.RFC3339)))
	}
	return out
}

// maxBad is how many unhealthy allocs of a group are named.
const maxBad = 5

// promoter says who promotes the healthy canaries of a group.
func (w *work) promoter(g *model.DeploymentState) string {
	if !g.AutoPromote {
		return "wait for drover deployment promote " + short(w.d.ID)
	}
	var others []string
	healthy := w.healthyCanaries()
	for _, name := range w.d.Unpromoted() {
		if o := w.d.TaskGroups[name]; !o.AutoPromote || healthy[name] < o.DesiredCanaries {
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return "are promoted now"
	}
	return "are promoted together with those of " + strings.Join(others, ", ")
}

// successor says what becomes of an alloc that is unhealthy.
func (w *work) successor(a *model.Allocation) string {
	line := fmt.Sprintf("Allocation %s is unhealthy", short(a.ID))
	tg := w.job.LookupTaskGroup(a.TaskGroup)
	switch why := reconcile.Irreplaceable(w.job, a); {
	case why != "":
		return line + ": " + why + "."
	case a.NextAllocation != "":
		return fmt.Sprintf("%s, and %s has replaced it.", line, short(a.NextAllocation))
	case tg == nil:
		return line + "."
	}
	at, _ := reconcile.NextReschedule(tg.ReschedulePolicy, a)
	return fmt.Sprintf("%s, and is replaced at %s.", line, cmp.Or(at, w.in.Now).UTC().Format(time.RFC3339))
}

// blockedOn returns the evaluation in which allocs of the group wait for room, or nil.
func (w *work) blockedOn(group string) *model.Evaluation {
	for _, e := range w.in.View.EvalsByJob(w.d.Namespace, w.d.JobID) {
		if e.Status == model.EvalStatusBlocked && e.FailedTGAllocs[group] != nil {
			return e
		}
	}
	return nil
}
