// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package group

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/core/agent/task"
)

// Step returns the state after ev and the effects to carry out.
func Step(policy Policy, s State, ev Event, now time.Time) (State, []Effect) {
	s.Steps = slices.Clone(s.Steps)
	m := machine{policy: policy, s: s, now: now}
	if ev = m.current(ev); ev != nil {
		m.apply(ev.kind(), ev)
	}
	for m.apply(always, nil) {
	}
	return m.s, m.effects
}

// Resume returns the effects for a state that was loaded after a restart of the agent. An
// unfinished step begins again as another try with a new limit, because nobody worked on it
// meanwhile.
func Resume(policy Policy, s State, now time.Time) (State, []Effect) {
	s.Steps = slices.Clone(s.Steps)
	m := machine{policy: policy, s: s, now: now}
	switch s.Phase {
	case Preparing:
		m.prepare(true)
	case Cancelling: // the cancelled step has ended with its agent
		m.s.Phase = TearDown
		m.undo(nil)
	case TearDown:
		m.undo(nil)
	case Backoff, Lingering:
		m.do(WakeUp{At: s.WakeAt})
	}
	for m.apply(always, nil) {
	}
	return m.s, m.effects
}

type machine struct {
	policy  Policy
	s       State
	now     time.Time
	effects []Effect
}

func (m *machine) do(e Effect) { m.effects = append(m.effects, e) }

// current returns ev, or nil if it answers an earlier try. A Wake after the deadline of the
// current try replaces the missing answer.
func (m *machine) current(ev Event) Event {
	try := m.s.Try
	switch ev := ev.(type) {
	case Prepared:
		try = ev.Try
	case Failed:
		try = ev.Try
	case TornDown:
		try = ev.Try
	case TearDownFailed:
		try = ev.Try
	case Wake:
		return m.overdue(ev)
	}
	if try != m.s.Try {
		return nil
	}
	return ev
}

func (m *machine) overdue(ev Wake) Event {
	step := m.s.Current()
	switch m.s.Phase {
	case Backoff, Lingering:
		if m.now.Before(m.s.WakeAt) {
			m.do(WakeUp{At: m.s.WakeAt})
			return nil
		}
		return ev
	case Preparing, Cancelling, TearDown:
		if step == nil || step.Deadline.IsZero() {
			return nil
		}
		if m.now.Before(step.Deadline) {
			m.do(WakeUp{At: step.Deadline})
			return nil
		}
	default:
		return nil
	}
	why := fmt.Sprintf("step %q did not end within %s", step.Name, step.Deadline.Sub(step.Since))
	if m.s.Phase == TearDown {
		return TearDownFailed{Try: m.s.Try, Err: why}
	}
	m.do(Cancel{Try: m.s.Try})
	return Failed{Try: m.s.Try, Err: why, Retry: true, Jitter: ev.Jitter}
}

// apply makes the first transition of the table that matches, and reports whether there is
// one.
func (m *machine) apply(on kind, ev Event) bool {
	for _, t := range transitions {
		if t.from != m.s.Phase || t.on != on || t.holds != nil && !t.holds(m, ev) {
			continue
		}
		m.s.Phase = t.to
		if t.do != nil {
			t.do(m, ev)
		}
		return true
	}
	return false
}

// begin gives the current step another try.
func (m *machine) begin(step *StepState, limit time.Duration) {
	m.s.Try++
	m.s.WakeAt = time.Time{}
	step.Since, step.Deadline = m.now, time.Time{}
	if limit > 0 {
		step.Deadline = m.now.Add(limit)
		m.do(WakeUp{At: step.Deadline})
	}
}

func (m *machine) prepare(again bool) {
	step := m.s.Current()
	if step == nil {
		return // every step is prepared
	}
	m.begin(step, step.Limit)
	step.Status = StepPreparing
	m.do(Prepare{Step: step.Name, Try: m.s.Try, Again: again})
}

func (m *machine) begun(Event) { m.prepare(false) }

func (m *machine) prepared(Event) {
	step := m.s.Current()
	step.Status, step.LastError = StepPrepared, ""
	m.prepare(false)
}

// retry puts a failed step off, as its restart policy says.
func (m *machine) retry(ev Event) {
	d := m.decide(ev)
	m.s.Current().LastError = ev.(Failed).Err
	m.s.WindowStart, m.s.WindowCount = d.WindowStart, d.WindowCount
	m.s.WakeAt = m.now.Add(d.Delay)
	m.do(WakeUp{At: m.s.WakeAt})
}

func (m *machine) decide(ev Event) task.Decision {
	return task.Decide(m.policy.Restart, m.s.WindowStart, m.s.WindowCount, m.now, ev.(Failed).Jitter)
}

func (m *machine) mayRetry(ev Event) bool { return ev.(Failed).Retry && m.decide(ev).Restart }

// fail gives the group up and tears down its prepared steps.
func (m *machine) fail(ev Event) {
	step := &m.s.Steps[m.s.next()]
	step.LastError = ev.(Failed).Err
	m.s.Failure = fmt.Sprintf("step %q of the group failed: %s", step.Name, step.LastError)
	m.undo(ev)
}

func (m *machine) cancel(Event) {
	step := m.s.Current()
	step.Deadline = m.now.Add(m.policy.TearDownLimit)
	m.do(Cancel{Try: m.s.Try})
	m.do(WakeUp{At: step.Deadline})
}

// undo begins to tear down the last prepared step.
func (m *machine) undo(Event) {
	step := m.s.Current()
	if step == nil {
		return // nothing is left
	}
	m.begin(step, m.policy.TearDownLimit)
	m.do(Undo{Step: step.Name, Try: m.s.Try})
}

func (m *machine) tornDown(ev Event) {
	step := m.s.Current()
	step.Status, step.LastError = StepTornDown, ""
	m.s.TearFailed = 0
	m.undo(ev)
}

// TearDownTries is how often a step is torn down before it is abandoned, unless it insists.
const TearDownTries = 5

// tearDownPause is the pause after the first failure, and tearDownPauseMax the longest one;
// it doubles with each.
const (
	tearDownPause    = time.Second
	tearDownPauseMax = time.Minute
)

func (m *machine) triesLeft(Event) bool {
	return m.s.Current().Insists || m.s.TearFailed+1 < TearDownTries
}

func (m *machine) linger(ev Event) {
	m.s.Current().LastError = ev.(TearDownFailed).Err
	m.s.WakeAt = m.now.Add(min(tearDownPause<<min(m.s.TearFailed, 10), tearDownPauseMax))
	m.s.TearFailed++
	m.do(WakeUp{At: m.s.WakeAt})
}

// abandon gives up a step that cannot be torn down and continues with the next one, so that
// the group ends.
func (m *machine) abandon(ev Event) {
	step := m.s.Current()
	step.Status, step.LastError = StepAbandoned, ev.(TearDownFailed).Err
	m.s.TearFailed = 0
	m.undo(ev)
}
