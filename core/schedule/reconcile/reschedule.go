// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// FailedAt returns when an alloc failed, by the clock of the servers: its node's may be wrong
// by hours. One that runs and is unhealthy has failed when that was said of it. For allocs of
// which servers have not recorded it, it is the end of the last task, or else the last change.
func FailedAt(a *model.Allocation) time.Time {
	if s := a.DeploymentStatus; s.IsUnhealthy() && !a.ClientTerminalStatus() && !s.Timestamp.IsZero() {
		return s.Timestamp
	}
	if at := a.FailedSince(); !at.IsZero() {
		return at
	}
	var last time.Time
	for _, s := range a.TaskStates {
		if s.FinishedAt != nil && s.FinishedAt.After(last) {
			last = *s.FinishedAt
		}
	}
	if last.IsZero() {
		return time.Unix(0, a.ModifyTime).UTC()
	}
	return last
}

// NextReschedule returns when a failed alloc may be replaced, or false if its
// policy allows no more attempts.
func NextReschedule(p *model.ReschedulePolicy, a *model.Allocation) (time.Time, bool) {
	if !p.Enabled() {
		return time.Time{}, false
	}
	failed := FailedAt(a)
	if !p.Unlimited && attemptsWithin(a, failed.Add(-p.Interval)) >= p.Attempts {
		return time.Time{}, false
	}
	return failed.Add(Delay(p, a)), true
}

// Irreplaceable says why nothing replaces an alloc of the job that has failed, or that is
// unhealthy in its deployment; "" if something will, now or later.
func Irreplaceable(job *model.Job, a *model.Allocation) string {
	if a.NextAllocation != "" || a.DesiredTransition.ShouldForceReschedule() || a.DesiredTransition.ShouldMigrate() && !a.ClientTerminalStatus() {
		return ""
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	switch {
	case tg == nil:
		return ""
	case job.Type == model.JobTypeSystem:
		return "system jobs replace it only by a new version"
	}
	if _, again := NextReschedule(tg.ReschedulePolicy, a); !again {
		return "its reschedule block allows no further attempt"
	}
	return ""
}

func events(a *model.Allocation) []*model.RescheduleEvent {
	if a.RescheduleTracker == nil {
		return nil
	}
	return a.RescheduleTracker.Events
}

func attemptsWithin(a *model.Allocation, since time.Time) int {
	n := 0
	for _, e := range events(a) {
		if e.RescheduleTime > since.UnixNano() {
			n++
		}
	}
	return n
}

// Delay returns how long a failed alloc waits for its replacement. The delay grows
// with the number of attempts, up to MaxDelay, and is reset after an alloc that lived
// longer than MaxDelay.
func Delay(p *model.ReschedulePolicy, a *model.Allocation) time.Duration {
	ev := events(a)
	n := len(ev)
	if p.DelayFunction == model.DelayFunctionConstant || n == 0 {
		return p.Delay
	}
	if lived := FailedAt(a).UnixNano() - ev[n-1].RescheduleTime; p.MaxDelay > 0 && lived > int64(p.MaxDelay) {
		return p.Delay
	}
	d, before := p.Delay, time.Duration(0)
	for range n {
		if p.DelayFunction == model.DelayFunctionFibonacci {
			d, before = d+before, d
		} else {
			d *= 2
		}
		if p.MaxDelay > 0 && d >= p.MaxDelay {
			return p.MaxDelay
		}
	}
	return d
}

// Tracker returns the reschedule history for the replacement of prev. Lost and
// migrated allocs keep the history; only failures add to it.
func Tracker(p *model.ReschedulePolicy, prev *model.Allocation, failed bool, now time.Time) *model.RescheduleTracker {
	if prev == nil {
		return nil
	}
	old := events(prev)
	if !failed {
		return prev.RescheduleTracker
	}
	const keep = 5
	if over := len(old) - keep + 1; over > 0 && (p == nil || p.Unlimited) {
		old = old[over:]
	}
	ev := append(append([]*model.RescheduleEvent(nil), old...), &model.RescheduleEvent{
		RescheduleTime: now.UnixNano(), PrevAllocID: prev.ID, PrevNodeID: prev.NodeID, Delay: delayOf(p, prev),
	})
	return &model.RescheduleTracker{Events: ev, LastReschedule: "ok"}
}

func delayOf(p *model.ReschedulePolicy, a *model.Allocation) time.Duration {
	if p == nil {
		return 0
	}
	return Delay(p, a)
}
