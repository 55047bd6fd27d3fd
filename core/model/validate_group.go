// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// validate returns the problems of the group within its job.
func (tg *TaskGroup) validate(j *Job) ValidationError {
	var p ValidationError
	validateName(&p, "Task group", tg.Name)
	tg.validateCount(&p)
	if u := tg.Update; u != nil && j.Type == JobTypeSystem && u.Canary > 100 {
		p.addf("Canary %d of a system job is over 100: it is the percentage of its nodes that get the new version before the promotion", u.Canary)
	}
	if u := tg.Update; u != nil && j.Type == JobTypeService && u.MaxParallel == 0 && u.Canary > tg.Count {
		p.addf("Canary count %d is over the count %d of the group, and max_parallel 0 makes no deployment that would place canaries", u.Canary, tg.Count)
	}
	if len(tg.Tasks) == 0 {
		p.addf("Missing tasks for task group")
	}
	validateConstraints(&p, tg.Constraints)
	tg.validateContradictions(&p, j)
	validateAffinities(&p, tg.Affinities)
	validateSpreads(&p, tg.Spreads)
	if (j.Type == JobTypeSystem || j.Type == JobTypeSysBatch) && (len(tg.Affinities) > 0 || len(tg.Spreads) > 0) {
		p.addf("System jobs may not have an affinity or spread block")
	}
	tg.validatePolicies(&p, j)
	validateNetworks(&p, tg.Networks)
	tg.validateVolumes(&p, j)
	tg.validateServices(&p, tg.Services, tg.portLabels(nil), true)
	tg.validateChecks(&p)
	tg.validateScaling(&p)
	tg.validateTasks(&p, j)
	tg.validateDependencies(&p, j)
	return p
}

// validateChecks checks that a node can run all checks of the group.
func (tg *TaskGroup) validateChecks(p *ValidationError) {
	n := 0
	count := func(services []*Service) {
		for _, s := range services {
			if s != nil {
				n += len(s.Checks)
			}
		}
	}
	count(tg.Services)
	for _, t := range tg.Tasks {
		if t != nil {
			count(t.Services)
		}
	}
	if n > MaxChecks {
		p.addf("the services of the group have %d checks; at most %d are run for an alloc", n, MaxChecks)
	}
}

// validateCount checks all numbers that determine how many allocs are created.
func (tg *TaskGroup) validateCount(p *ValidationError) {
	if tg.Count < 0 {
		p.addf("Task group count can't be negative")
	}
	if tg.Count > maxGroupCount {
		p.addf("Task group count %d is over the limit of %d", tg.Count, maxGroupCount)
	}
	if u := tg.Update; u != nil && u.Canary > maxGroupCount {
		p.addf("Canary count %d is over the limit of %d", u.Canary, maxGroupCount)
	}
	if s := tg.Scaling; s != nil && s.Max > maxGroupCount {
		p.addf("Scaling policy invalid: maximum count %d is over the limit of %d", s.Max, maxGroupCount)
	}
}

func validateName(p *ValidationError, what, name string) {
	switch {
	case name == "":
		p.addf("Missing %s name", strings.ToLower(what))
	case strings.Contains(name, "\000"):
		p.addf("%s name contains a null character", what)
	case strings.ContainsAny(name, `/\`) || name == "." || name == "..":
		p.addf("%s name %q contains a path separator or is a path; it names a directory of the alloc", what, name)
	case len(name) > maxNameLength:
		p.addf("%s name is longer than %d bytes", what, maxNameLength)
	case hasControl(name):
		p.addf("%s name %q contains a control character", what, name)
	}
}

func (tg *TaskGroup) validatePolicies(p *ValidationError, j *Job) {
	if tg.RestartPolicy == nil {
		p.addf("Task Group %v should have a restart policy", tg.Name)
	} else {
		tg.RestartPolicy.validate(p)
	}
	switch {
	case j.Type == JobTypeSystem || j.Type == JobTypeSysBatch:
		if tg.ReschedulePolicy != nil {
			p.addf("System jobs should not have a reschedule policy")
		}
	case tg.ReschedulePolicy == nil:
		p.addf("Task Group %v should have a reschedule policy", tg.Name)
	default:
		tg.ReschedulePolicy.validate(p)
	}
	if tg.EphemeralDisk == nil {
		p.addf("Task Group %v should have an ephemeral disk object", tg.Name)
	} else if tg.EphemeralDisk.SizeMB < 10 {
		p.addf("minimum DiskMB value is 10; got %d", tg.EphemeralDisk.SizeMB)
	} else {
		p.atMost("size of ephemeral_disk", int64(tg.EphemeralDisk.SizeMB))
	}
	if tg.Update != nil {
		if j.Type != JobTypeService && j.Type != JobTypeSystem {
			p.addf("Job type %q does not allow update block", j.Type)
		}
		tg.Update.validate(p)
		tg.validateKillTimeouts(p)
	}
	if m := tg.Migrate; m != nil {
		if j.Type != JobTypeService {
			p.addf("Job type %q does not allow migrate block", j.Type)
		} else {
			m.validate(p)
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
	}{
		{"shutdown_delay", tg.ShutdownDelay}, {"max_run_duration", tg.MaxRunDuration},
		{"stop_after_client_disconnect", tg.StopAfterClientDisconnect}, {"max_client_disconnect", tg.MaxClientDisconnect},
	} {
		if d.value != nil && *d.value < 0 {
			p.addf("%s must be a positive value", d.name)
		}
	}
	tg.validateDisconnect(p, j)
}

// validateKillTimeouts checks that a deployment cannot miss its progress deadline only
// because it waits for old tasks to end.
func (tg *TaskGroup) validateKillTimeouts(p *ValidationError) {
	for _, t := range tg.Tasks {
		if d := tg.Update.ProgressDeadline; t != nil && d > 0 && t.KillTimeout > d {
			p.addf("task %s has a kill timeout (%s) longer than the group's progress deadline (%s)", t.Name, t.KillTimeout, d)
		}
	}
}

// validateDisconnect checks the disconnect block and the older fields that it
// replaces.
func (tg *TaskGroup) validateDisconnect(p *ValidationError, j *Job) {
	if tg.MaxClientDisconnect != nil && tg.StopAfterClientDisconnect != nil {
		p.addf("Task group cannot be configured with both max_client_disconnect and stop_after_client_disconnect")
	}
	runs := j.Type == JobTypeService || j.Type == JobTypeBatch
	if tg.StopAfterClientDisconnect != nil && *tg.StopAfterClientDisconnect > 0 && !runs {
		p.addf("stop_after_client_disconnect can only be set in batch and service jobs")
	}
	d := tg.Disconnect
	if d == nil {
		return
	}
	if tg.MaxClientDisconnect != nil || tg.StopAfterClientDisconnect != nil || tg.PreventRescheduleOnLost {
		p.addf("using disconnect block with max_client_disconnect, stop_after_client_disconnect or prevent_reschedule_on_lost is not allowed: move their values into the block")
	}
	var part ValidationError
	if d.LostAfter < 0 {
		part.addf("lost_after cannot be a negative duration")
	}
	if after := d.StopOnClientAfter; after != nil {
		if *after < 0 {
			part.addf("stop_after cannot be a negative duration")
		}
		if d.LostAfter != 0 {
			part.addf("Disconnect cannot be configured with both lost_after and stop_after")
		}
		if !runs {
			part.addf("stop_after can only be used with service or batch job types")
		}
	}
	switch d.Reconcile {
	case "", ReconcileBestScore, ReconcileKeepOriginal, ReconcileKeepReplacement, ReconcileLongestRunning:
	default:
		part.addf("reconcile option is invalid: %q; use best_score, keep_original, keep_replacement or longest_running", d.Reconcile)
	}
	p.under("Task group disconnect block validation failed", part)
}

func (r *RestartPolicy) validate(p *ValidationError) {
	if r.Mode != RestartPolicyModeDelay && r.Mode != RestartPolicyModeFail {
		p.addf("Unsupported restart mode: %q", r.Mode)
		return
	}
	if r.Attempts < 0 || r.Interval < 0 || r.Delay < 0 {
		p.addf("Restart policy must not have negative attempts, interval or delay")
		return
	}
	if r.Attempts == 0 && r.Mode != RestartPolicyModeFail {
		p.addf("Restart policy %q with %d attempts is ambiguous", r.Mode, r.Attempts)
	}
	if r.Interval < 5*time.Second {
		p.addf("Interval can not be less than %v (got %v)", 5*time.Second, r.Interval)
	}
	if time.Duration(r.Attempts)*r.Delay > r.Interval {
		p.addf("Nomad can't restart the TaskGroup %v times in an interval of %v with a delay of %v", r.Attempts, r.Interval, r.Delay)
	}
}

func (r *ReschedulePolicy) validate(p *ValidationError) {
	if !r.Enabled() {
		return
	}
	if r.Attempts < 0 || r.Interval < 0 {
		p.addf("Reschedule policy must not have negative attempts or interval")
	}
	if r.Delay < 5*time.Second {
		p.addf("Delay cannot be less than %v (got %v)", 5*time.Second, r.Delay)
	}
	switch r.DelayFunction {
	case DelayFunctionConstant:
	case DelayFunctionExponential, DelayFunctionFibonacci:
		if r.MaxDelay < 5*time.Second {
			p.addf("Max Delay cannot be less than %v (got %v)", 5*time.Second, r.MaxDelay)
		}
		if r.MaxDelay < r.Delay {
			p.addf("Max Delay cannot be less than Delay %v (got %v)", r.Delay, r.MaxDelay)
		}
	default:
		p.addf("Invalid delay function %q, must be one of %q", r.DelayFunction, []string{DelayFunctionConstant, DelayFunctionExponential, DelayFunctionFibonacci})
	}
	if r.Unlimited {
		if r.Attempts > 0 {
			p.addf("Reschedule Policy with Attempts = %v, Interval = %v, and Unlimited = %v is ambiguous: write attempts and interval, or unlimited", r.Attempts, r.Interval, r.Unlimited)
		}
		return
	}
	if r.Interval < 15*time.Second {
		p.addf("Interval cannot be less than %v (got %v)", 15*time.Second, r.Interval)
	}
	r.validateAttempts(p)
}

// validateAttempts checks that all attempts fit into the interval; otherwise the last
// ones would never be made.
func (r *ReschedulePolicy) validateAttempts(p *ValidationError) {
	if r.Attempts <= 0 || r.Interval <= 0 || r.Delay <= 0 {
		return
	}
	var sum time.Duration
	delay, before := r.Delay, time.Duration(0)
	for made := range min(r.Attempts, 100_000) {
		if sum += delay; sum > r.Interval {
			p.addf("Nomad can only make %v attempts in %v with initial delay %v and delay function %q%s", made, r.Interval, r.Delay, r.DelayFunction, r.maxDelayText())
			p.addf("Set the interval to at least %v to accommodate %v attempts", r.span(), r.Attempts)
			return
		}
		delay, before = r.next(delay, before)
	}
}

func (r *ReschedulePolicy) maxDelayText() string {
	if r.DelayFunction == DelayFunctionConstant {
		return ""
	}
	return fmt.Sprintf(", and max delay %v", r.MaxDelay)
}

// next returns the delay that follows delay; before is the delay that preceded it.
func (r *ReschedulePolicy) next(delay, before time.Duration) (time.Duration, time.Duration) {
	after := delay
	switch r.DelayFunction {
	case DelayFunctionExponential:
		after = 2 * delay
	case DelayFunctionFibonacci:
		after = delay + before
	}
	if r.MaxDelay > 0 && r.DelayFunction != DelayFunctionConstant {
		after = min(after, r.MaxDelay)
	}
	return after, delay
}

// span returns how long all attempts take, rounded up to minutes if it is more than
// one minute. The number of attempts that it considers is limited, which only
// unreasonable policies reach.
func (r *ReschedulePolicy) span() time.Duration {
	var sum time.Duration
	delay, before := r.Delay, time.Duration(0)
	for range min(r.Attempts, 100_000) {
		if sum += delay; sum < 0 || sum > 100*365*24*time.Hour {
			return 100 * 365 * 24 * time.Hour
		}
		delay, before = r.next(delay, before)
	}
	if sum > time.Minute {
		sum = (sum + time.Minute - 1).Truncate(time.Minute)
	}
	return sum
}

func (u *UpdateStrategy) validate(p *ValidationError) {
	switch u.Resources {
	case "", UpdateReplace, UpdateInPlace:
	default:
		p.addf("Update resources must be %q or %q but found %q", UpdateReplace, UpdateInPlace, u.Resources)
	}
	validateHealthCheck(p, u.HealthCheck)
	if u.MaxParallel < 0 {
		p.addf("Max parallel can not be less than zero: %d < 0", u.MaxParallel)
	}
	if u.Canary < 0 {
		p.addf("Canary count can not be less than zero: %d < 0", u.Canary)
	}
	if u.Canary == 0 && u.AutoPromote {
		p.addf("Auto Promote requires a Canary count greater than zero")
	}
	if u.MinHealthyTime < 0 {
		p.addf("Minimum healthy time may not be less than zero: %v", u.MinHealthyTime)
	}
	if u.HealthyDeadline <= 0 {
		p.addf("Healthy deadline must be greater than zero: %v", u.HealthyDeadline)
	}
	if u.ProgressDeadline < 0 {
		p.addf("Progress deadline must be zero or greater: %v", u.ProgressDeadline)
	}
	if u.MinHealthyTime >= u.HealthyDeadline {
		p.addf("Minimum healthy time must be less than healthy deadline: %v > %v", u.MinHealthyTime, u.HealthyDeadline)
	}
	if u.ProgressDeadline != 0 && u.HealthyDeadline >= u.ProgressDeadline {
		p.addf("Healthy deadline must be less than progress deadline: %v > %v", u.HealthyDeadline, u.ProgressDeadline)
	}
	if u.Stagger < 0 {
		p.addf("Stagger must be zero or greater: %v", u.Stagger)
	}
}

func (m *MigrateStrategy) validate(p *ValidationError) {
	if m.MaxParallel < 0 {
		p.addf("MaxParallel must be >= 0 but found %d", m.MaxParallel)
	}
	switch m.HealthCheck {
	case "checks", "task_states":
	default:
		p.addf("Invalid HealthCheck value in migrate: %q; use checks or task_states", m.HealthCheck)
	}
	if m.MinHealthyTime < 0 {
		p.addf("MinHealthyTime is %s but must be >= 0", m.MinHealthyTime)
	}
	if m.HealthyDeadline < 0 {
		p.addf("HealthyDeadline is %s but must be >= 0", m.HealthyDeadline)
	}
	if m.MinHealthyTime > m.HealthyDeadline {
		p.addf("MinHealthyTime must be less than HealthyDeadline")
	}
}

func validateHealthCheck(p *ValidationError, v string) {
	switch v {
	case "checks", "task_states", "manual":
	default:
		p.addf("Invalid health check given: %q", v)
	}
}

func (tg *TaskGroup) validateScaling(p *ValidationError) {
	s := tg.Scaling
	if s == nil {
		return
	}
	var part ValidationError
	s.validateBounds(&part)
	if int64(tg.Count) < s.Min {
		part.addf("Scaling policy invalid: task group count must not be less than minimum count in scaling policy")
	}
	if int64(tg.Count) > s.Max {
		part.addf("Scaling policy invalid: task group count must not be greater than maximum count in scaling policy")
	}
	p.under("Task group scaling policy validation failed", part)
}

// validateBounds checks what is said of policies of groups and of tasks alike.
func (s *ScalingPolicy) validateBounds(p *ValidationError) {
	if s.Min < 0 {
		p.addf("Scaling policy invalid: minimum count must not be negative, and is %d", s.Min)
	}
	if s.Max < s.Min {
		p.addf("Scaling policy invalid: maximum count must not be less than minimum count")
	}
}

func (tg *TaskGroup) validateTasks(p *ValidationError, j *Job) {
	seen := map[string]int{}
	leaders := 0
	mains := 0
	for i, t := range tg.Tasks {
		switch first, ok := seen[t.Name]; {
		case t.Name == "":
			p.addf("Task %d missing name", i+1)
		case ok:
			p.addf("Task %d redefines '%s' from task %d", i+1, t.Name, first)
		default:
			seen[t.Name] = i + 1
		}
		if t.Leader {
			leaders++
		}
		if t.Lifecycle == nil {
			mains++
		}
	}
	if leaders > 1 {
		p.addf("Only one task may be marked as leader")
	}
	if mains == 0 && len(tg.Tasks) > 0 {
		p.addf("Task group must have at least one task without a lifecycle block")
	}
	for _, t := range tg.Tasks {
		p.under(fmt.Sprintf("Task %s validation failed", t.Name), t.validate(j, tg))
	}
}

// portLabels returns the labels of the ports of the group and of a task.
func (tg *TaskGroup) portLabels(t *Task) map[string]bool {
	out := map[string]bool{}
	networks := tg.Networks
	if t != nil && t.Resources != nil {
		networks = append(networks[:len(networks):len(networks)], t.Resources.Networks...)
	}
	for _, n := range networks {
		for _, port := range n.ReservedPorts {
			out[port.Label] = true
		}
		for _, port := range n.DynamicPorts {
			out[port.Label] = true
		}
	}
	return out
}

func hasControl(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r != 0 && unicode.IsControl(r) }) >= 0
}
