// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Step returns the state after ev and the effects to carry out.
func Step(spec Spec, s State, ev Event, now time.Time) (State, []Effect) {
	m := machine{spec: spec, s: s, now: now}
	m.step(ev)
	return m.s, m.effects
}

// Resume returns the effects for a state that was loaded after an agent restart,
// except the recovery of a running task.
func Resume(spec Spec, s State, now time.Time) (State, []Effect) {
	m := machine{spec: spec, s: s, now: now}
	switch s.Phase {
	case Starting:
		// It is unknown whether that start completed: the driver is asked for its run,
		// which continues if it exists and otherwise is started again.
		if s.KillWanted {
			m.do(Destroy{Run: s.Run})
			m.dieKilled()
		} else if s.Pausing && m.off() {
			m.do(Destroy{Run: s.Run})
			m.rest()
		} else {
			m.do(Start{Run: s.Run, Again: true})
		}
	case Backoff:
		m.do(WakeUp{At: s.WakeAt})
		m.do(Destroy{Run: s.Run})
	case Dead, Waiting, Off:
		// The agent may have ended before it freed the resources of that run.
		if s.Run > 0 {
			m.do(Destroy{Run: s.Run})
		}
	case Delaying:
		m.do(WakeUp{At: s.WakeAt})
	case Stopping:
		m.stop()
	case Running:
		// The agent may have ended before, during or after an update, which may be repeated.
		m.s.Updating = false
		m.resize()
	}
	return m.s, m.effects
}

type machine struct {
	spec    Spec
	s       State
	now     time.Time
	effects []Effect
}

func (m *machine) do(e Effect) { m.effects = append(m.effects, e) }

func (m *machine) step(ev Event) {
	switch ev := ev.(type) {
	case Begin:
		m.begin()
	case Started:
		m.started(ev)
	case StartFailed:
		m.startFailed(ev)
	case Exited:
		m.exited(ev)
	case Kill:
		m.kill(ev)
	case Restart:
		m.restart(ev)
	case Rerun:
		m.rerun(ev)
	case Unhealthy:
		m.unhealthy(ev)
	case Resize:
		m.resize()
	case Updated:
		m.updated(ev)
	case UpdateFailed:
		m.updateFailed(ev)
	case Held:
		m.held(ev)
	case Hold:
		m.hold(ev)
	case Look:
		m.look()
	case Direct:
		m.direct(ev)
	case Wake:
		m.wake()
	case Note:
		m.s.note(m.now, ev.Event)
	}
}

func (m *machine) begin() {
	if m.s.Phase != Waiting {
		return
	}
	m.s.HeldSince = time.Time{}
	m.look()
	if m.off() {
		m.rest()
		return
	}
	m.s.note(m.now, model.EventSetup())
	m.start()
}

func (m *machine) start() {
	m.s.Phase, m.s.WakeAt, m.s.RestartWanted, m.s.Unfit = Starting, time.Time{}, false, false
	m.s.Pausing, m.s.OffSince = false, time.Time{}
	m.s.Has, m.s.Updating, m.s.UpdatedAt = m.spec.Limits, false, time.Time{}
	m.s.Paused, m.s.ResumedAt = false, time.Time{}
	m.s.Run++
	m.do(Start{Run: m.s.Run})
}

func (m *machine) started(ev Started) {
	if m.s.Phase != Starting || ev.Run != m.s.Run {
		return
	}
	m.s.Phase, m.s.Fresh = Running, false
	m.s.Starts++
	m.s.Report.State = model.TaskStateRunning
	at := moment(m.now)
	m.s.Report.StartedAt = &at
	if m.s.FirstStart.IsZero() {
		m.s.FirstStart = at
	}
	m.s.note(m.now, model.EventStarted())
	m.s.Pausing = m.off()
	if m.s.KillWanted || m.s.RestartWanted || m.s.RerunWanted || m.s.Pausing {
		m.stop()
		return
	}
	m.resize()
}

// resize has a running task get the resources of the spec. One change is made at a time,
// so that an older one cannot be the last.
func (m *machine) resize() {
	if m.s.Phase == Running && !m.s.Updating && m.s.Has != m.spec.Limits {
		m.s.Updating = true
		m.do(Update{Run: m.s.Run})
	}
}

func (m *machine) updated(ev Updated) {
	if ev.Run != m.s.Run || !m.s.Updating {
		return
	}
	assigned := !m.s.Has.SameAssigned(ev.Limits)
	m.s.Has, m.s.Updating = ev.Limits, false
	if assigned {
		m.s.UpdatedAt = m.now.UTC()
		m.s.note(m.now, model.EventResourcesUpdated(ev.Limits.CPUMHz, ev.Limits.MemoryMB, ev.Limits.MemoryMaxMB))
	}
	m.resize()
}

// updateFailed restarts a task that cannot get its new resources while it runs, because the
// servers have already accounted for them. One that only cannot be moved to other cores stays
// where it is, until the next change.
func (m *machine) updateFailed(ev UpdateFailed) {
	if ev.Run != m.s.Run || !m.s.Updating {
		return
	}
	m.s.Updating = false
	if ev.Limits != m.spec.Limits {
		m.resize() // newer ones may be possible
		return
	}
	if m.s.Has.SameAssigned(ev.Limits) {
		m.s.Has = ev.Limits
		return
	}
	m.s.note(m.now, model.EventUpdateFailed(ev.Err))
	m.restart(Restart{Reason: "Restarted to get its new resources"})
}

// held records whether a run is paused. One that is being stopped is resumed by its driver
// for that, or killed.
func (m *machine) held(ev Held) {
	if ev.Run != m.s.Run || ev.Paused == m.s.Paused || m.s.Phase != Running && m.s.Phase != Delaying {
		return
	}
	m.s.Paused = ev.Paused
	if ev.Paused {
		m.s.note(m.now, model.EventPaused())
		return
	}
	m.s.ResumedAt = m.now.UTC()
	m.s.note(m.now, model.EventResumed())
}

func (m *machine) startFailed(ev StartFailed) {
	if m.s.Phase != Starting || ev.Run != m.s.Run {
		return
	}
	switch { // the start was given up, which is not a failure
	case m.s.KillWanted:
		m.dieKilled()
		return
	case m.s.RerunWanted:
		m.await()
		return
	case m.s.Pausing:
		m.paused()
		return
	}
	m.s.note(m.now, failure(ev))
	if ev.Retry {
		m.again(ev.Jitter, ev.RetryAfter)
	} else {
		m.dieFailed("Error was unrecoverable")
	}
}

func (m *machine) exited(ev Exited) {
	if ev.Run != m.s.Run {
		return
	}
	switch m.s.Phase {
	case Running, Delaying, Stopping:
	default:
		return
	}
	if ev.OOMKilled {
		m.s.OOMKills++
	}
	m.do(Destroy{Run: ev.Run})
	m.s.Paused = false
	m.s.note(m.now, model.EventTerminated(ev.ExitCode, ev.Signal, ev.OOMKilled, ev.Err))
	well := ev.ExitCode == 0 && ev.Signal == 0 && !ev.OOMKilled && ev.Err == ""
	switch {
	case m.s.KillWanted:
		m.dieKilled()
	case m.s.RerunWanted:
		m.await()
	case m.s.Pausing:
		m.paused()
	case m.s.RestartWanted:
		m.countRestart()
		m.s.note(m.now, model.EventRestarting("", 0))
		m.s.Report.State = model.TaskStatePending
		m.start()
	case well && m.spec.EndsWell && !m.s.Unfit:
		m.die()
	default:
		m.again(ev.Jitter, 0)
	}
}

func (m *machine) kill(ev Kill) {
	if m.s.Phase == Dead {
		return
	}
	first := !m.s.KillWanted
	m.s.KillWanted, m.s.RestartWanted, m.s.RerunWanted = true, false, false
	m.s.FailWanted = m.s.FailWanted || ev.Reason.FailsTask
	if first && ev.Reason.Type != "" {
		m.s.note(m.now, ev.Reason)
	}
	switch m.s.Phase {
	case Waiting, Backoff, Off:
		m.dieKilled()
	case Running:
		if m.spec.ShutdownDelay <= 0 || ev.NoDelay {
			m.stop()
			return
		}
		m.s.Phase, m.s.WakeAt = Delaying, m.now.Add(m.spec.ShutdownDelay)
		text := fmt.Sprintf("Waiting for shutdown_delay of %s before killing the task.", m.spec.ShutdownDelay)
		m.s.note(m.now, model.TaskEvent{Type: model.TaskWaitingShuttingDownDelay, DisplayMessage: text})
		m.do(WakeUp{At: m.s.WakeAt})
	case Delaying:
		if ev.NoDelay {
			m.s.note(m.now, model.TaskEvent{Type: model.TaskSkippingShutdownDelay, DisplayMessage: "Skipping shutdown_delay before killing the task."})
			m.stop()
		}
	}
}

// stop asks a running task to end. A task that stops for a restart gets no "Killing"
// event, as in the reference.
func (m *machine) stop() {
	m.s.Phase, m.s.WakeAt, m.s.Paused = Stopping, time.Time{}, false
	if m.s.KillWanted {
		m.s.note(m.now, model.EventKilling(m.spec.KillTimeout))
	}
	m.do(Stop{Run: m.s.Run, Signal: m.spec.KillSignal, Timeout: m.spec.KillTimeout})
}

func (m *machine) restart(ev Restart) {
	if m.s.KillWanted && m.s.Phase != Dead {
		return
	}
	switch m.s.Phase {
	case Starting:
		m.signaled(ev.Reason)
		m.s.RestartWanted = true
	case Running:
		m.signaled(ev.Reason)
		m.s.RestartWanted = true
		m.stop()
	case Backoff:
		m.signaled(ev.Reason)
		m.start()
	case Dead:
		if !ev.Revive {
			return
		}
		m.signaled(ev.Reason)
		m.reset()
		m.countRestart()
		m.start()
	}
}

// unhealthy stops a run whose checks have failed. exited then asks the restart policy.
func (m *machine) unhealthy(ev Unhealthy) {
	if m.s.Phase != Running || ev.Run != m.s.Run || m.s.KillWanted {
		return
	}
	m.signaled(ev.Reason)
	m.s.Unfit = true
	m.stop()
}

func (m *machine) signaled(reason string) {
	m.s.note(m.now, model.EventRestartSignaled(reason))
}

// rerun makes the task wait for its turn again, after its end if it runs.
func (m *machine) rerun(ev Rerun) {
	if m.s.KillWanted && m.s.Phase != Dead {
		return
	}
	switch m.s.Phase {
	case Starting, Stopping:
		m.signaled(ev.Reason)
		m.s.RerunWanted = true
	case Running:
		m.signaled(ev.Reason)
		m.s.RerunWanted = true
		m.stop()
	case Backoff, Off, Dead:
		m.signaled(ev.Reason)
		m.await()
	}
}

// await returns the task to Waiting.
func (m *machine) await() {
	m.countRestart()
	m.s.note(m.now, model.EventRestarting("", 0))
	m.reset()
	m.s.Phase, m.s.WakeAt, m.s.Fresh, m.s.HeldSince = Waiting, time.Time{}, true, time.Time{}
	m.s.RestartWanted, m.s.RerunWanted, m.s.Unfit, m.s.Pausing = false, false, false, false
}

// reset clears the results of a task that has ended.
func (m *machine) reset() {
	m.s.KillWanted, m.s.FailWanted, m.s.FirstStart = false, false, time.Time{}
	m.s.Report.State, m.s.Report.Failed, m.s.Report.FinishedAt = model.TaskStatePending, false, nil
}

func (m *machine) wake() {
	if m.now.Before(m.s.WakeAt) {
		m.do(WakeUp{At: m.s.WakeAt})
		return
	}
	switch m.s.Phase {
	case Backoff:
		m.start()
	case Delaying:
		m.stop()
	}
}

// again restarts the task if its restart policy allows it, at the earliest after notBefore.
func (m *machine) again(jitter float64, notBefore time.Duration) {
	d := Decide(m.spec.Restart, m.s.WindowStart, m.s.WindowCount, m.now, jitter).notBefore(notBefore)
	m.s.WindowStart, m.s.WindowCount = d.WindowStart, d.WindowCount
	if !d.Restart {
		m.dieFailed(d.Reason)
		return
	}
	m.countRestart()
	m.s.Report.State = model.TaskStatePending
	m.s.note(m.now, model.EventRestarting(d.Reason, d.Delay))
	m.s.Phase, m.s.WakeAt = Backoff, m.now.Add(d.Delay)
	m.do(WakeUp{At: m.s.WakeAt})
}

func (m *machine) countRestart() {
	m.s.Report.Restarts++
	at := moment(m.now)
	m.s.Report.LastRestart = &at
}

func (m *machine) die() {
	m.s.Phase, m.s.WakeAt, m.s.Report.Paused, m.s.Pausing = Dead, time.Time{}, "", false
	m.s.Report.State = model.TaskStateDead
	at := moment(m.now)
	m.s.Report.FinishedAt = &at
}

func (m *machine) dieKilled() {
	m.s.Report.Failed = m.s.Report.Failed || m.s.FailWanted
	m.s.note(m.now, model.EventKilled())
	m.die()
}

func (m *machine) dieFailed(reason string) {
	m.s.note(m.now, model.EventNotRestarting(reason))
	m.s.Report.Failed = true
	m.die()
}
