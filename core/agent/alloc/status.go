// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
)

// clientStatus derives an alloc's status from its tasks and its group. An alloc counts as
// ended only when all of its tasks have and its group is torn down: until then it needs
// its resources.
func clientStatus(states map[string]task.State, g group.State) (status, description string) {
	started, failed, alive := false, false, g.Phase != group.Over
	for _, s := range states {
		started = started || s.Report.StartedAt != nil
		failed = failed || s.Report.Failed
		alive = alive || s.Phase != task.Dead
	}
	switch {
	case !alive && failed:
		return model.AllocClientStatusFailed, "Failed tasks"
	case !alive && !g.WasReady:
		return model.AllocClientStatusComplete, "The allocation was stopped before it was started"
	case !alive:
		return model.AllocClientStatusComplete, "All tasks have completed"
	case started:
		return model.AllocClientStatusRunning, cmp.Or(lingers(g), "Tasks are running")
	}
	if why := lingers(g); why != "" {
		return model.AllocClientStatusPending, why
	}
	for _, s := range states {
		if s.Phase == task.Off {
			return model.AllocClientStatusPending, "No tasks have started: one is paused by its schedule or an operator"
		}
	}
	if step := g.Current(); step != nil && step.LastError != "" {
		return model.AllocClientStatusPending, fmt.Sprintf("No tasks have started: step %q of the group failed and is tried again: %s", step.Name, step.LastError)
	}
	return model.AllocClientStatusPending, "No tasks have started"
}

// tearsDown reports whether a group is being torn down.
func tearsDown(g group.State) bool { return g.Phase == group.TearDown || g.Phase == group.Lingering }

// lingers says why an alloc lives on after its tasks have ended. It returns "" while tasks
// run, and as long as no teardown has failed.
func lingers(g group.State) string {
	step := g.Current()
	if step == nil || !tearsDown(g) || g.TearFailed == 0 {
		return ""
	}
	next := ""
	if g.Phase == group.Lingering {
		next = "; next try at " + g.WakeAt.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("All tasks have ended; step %q of the group cannot be torn down: %s%s", step.Name, oneLine(step.LastError), next)
}

// oneLine joins the errors of several volumes.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

// healthRule says how the health of an alloc is judged.
type healthRule struct {
	minHealthy time.Duration
	deadline   time.Time
	window     time.Duration // from the begin to the deadline, for the message
	checks     bool          // service checks must pass, too
}

// ruleOf returns the rule for an alloc; ok is false if its health is not needed.
func ruleOf(a *model.Allocation, tg *model.TaskGroup, received time.Time) (healthRule, bool) {
	if a.Job.Type != model.JobTypeService && a.Job.Type != model.JobTypeSystem {
		return healthRule{}, false
	}
	check, minimum, window := "", time.Duration(0), time.Duration(0)
	switch {
	case a.DeploymentID != "" && tg.Update != nil:
		check, minimum, window = tg.Update.HealthCheck, tg.Update.MinHealthyTime, tg.Update.HealthyDeadline
	case a.DeploymentID == "" && tg.Migrate != nil:
		check, minimum, window = tg.Migrate.HealthCheck, tg.Migrate.MinHealthyTime, tg.Migrate.HealthyDeadline
	default:
		return healthRule{}, false
	}
	if check == "manual" {
		return healthRule{}, false
	}
	return healthRule{minHealthy: minimum, deadline: received.Add(window), window: window, checks: check == "checks"}, true
}

// verdict is the result of judging an alloc's health. While it is undecided, at is the
// latest time to check again.
type verdict struct {
	decided bool
	healthy bool
	at      time.Time
	reason  map[string]string // why tasks are unhealthy, by task
}

// judge decides whether an alloc is healthy: all long-running tasks have run for the
// minimum time, all others have ended successfully, and its checks have passed for the
// minimum time.
func judge(rule healthRule, tg *model.TaskGroup, states map[string]task.State, checked checkHealth, now time.Time) verdict {
	if checked.unknown { // soon known
		return verdict{}
	}
	since := checked.since
	late := map[string]string{}
	for _, t := range tg.Tasks {
		if task.Hook(t) == model.TaskLifecycleHookPoststop {
			continue
		}
		s := states[t.Name]
		if s.Report.Failed {
			return verdict{decided: true, reason: map[string]string{t.Name: "Unhealthy because of failed task"}}
		}
		at, ok := settledAt(t, s)
		if !ok {
			late[t.Name] = fmt.Sprintf("Task not running by healthy_deadline of %s", rule.window)
			if s.Updating {
				late[t.Name] = fmt.Sprintf("Task did not get its new resources by healthy_deadline of %s", rule.window)
			}
			if s.Paused {
				late[t.Name] = fmt.Sprintf("Task was frozen at the healthy_deadline of %s; drover alloc thaw lets it continue", rule.window)
			}
			continue
		}
		if at.Add(rule.minHealthy).After(rule.deadline) {
			late[t.Name] = fmt.Sprintf("Task not running for min_healthy_time of %s by healthy_deadline of %s", rule.minHealthy, rule.window)
		}
		if at.After(since) {
			since = at
		}
	}
	if why := checked.lateness(rule); why != "" && len(late) == 0 {
		late[checked.blame(tg)] = why
	}
	healthyAt := since.Add(rule.minHealthy)
	switch {
	case len(late) == 0 && !now.Before(healthyAt):
		return verdict{decided: true, healthy: true}
	case !now.Before(rule.deadline):
		return verdict{decided: true, reason: late}
	case len(late) == 0:
		return verdict{at: healthyAt}
	}
	return verdict{at: rule.deadline}
}

// settledAt returns when a task reached the state that counts as healthy.
func settledAt(t *model.Task, s task.State) (time.Time, bool) {
	if t.Lifecycle != nil && !t.Lifecycle.Sidecar {
		if s.Phase != task.Dead || s.Report.FinishedAt == nil {
			return time.Time{}, false
		}
		return *s.Report.FinishedAt, true
	}
	if s.Phase == task.Off { // nothing more can be asked of it until it is to run
		return s.OffSince, true
	}
	if s.Phase != task.Running || s.Report.StartedAt == nil || s.Updating || s.Paused {
		return time.Time{}, false
	}
	at := *s.Report.StartedAt
	for _, later := range []time.Time{s.UpdatedAt, s.ResumedAt} {
		if later.After(at) {
			at = later
		}
	}
	return at, true
}
