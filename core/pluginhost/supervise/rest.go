// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/pluginhost/kinds"
)

// restFactor is how much longer the interval of checks is for a resting plugin than the
// first interval for one that found nothing. The interval of the latter grows up to it.
const restFactor = 10

// settled ends a process that nobody needs, until it is wanted or the next check is
// due, and shows the result. During a check the plugin keeps its state, so that checks
// cause no reports to servers.
func (s *Plugin) settled(ctx context.Context, now *live, look *time.Timer) *live {
	if now == nil {
		return nil
	}
	cfg := s.shared
	state, why, factor := StateUndetected, kinds.ErrAbsent, absentFactor(s.absences)
	if now.parts.Present() {
		state, why, factor = StateResting, kinds.ErrResting, restFactor
		s.absences = 0
	}
	if s.Mode() != On || !now.parts.Unneeded(time.Now(), cfg.AbsentInterval/2) || !now.parts.Retire(ctx, why) {
		if s.snapshot().State.Rests() {
			s.set(func(st *Status) { st.State = StateRunning })
		}
		return now
	}
	pause := factor * jittered(cfg.AbsentInterval)
	if state == StateUndetected {
		s.absences++
	}
	cfg.Logger.Debug("a plugin that nobody needs is not kept running", "plugin", s.name, "state", state, "next_look", pause)
	s.wake.hush()
	now.detach(why)
	now.proc.Stop()
	s.shared.Launcher.Forget(s.name)
	s.set(func(st *Status) { st.State, st.PID, st.Reattached = state, 0, false })
	look.Reset(pause)
	return nil
}

// absentFactor is how many intervals pass until the next check of a machine that lacked
// what a plugin needs, after that many checks before. The wait doubles with each check,
// because a start of the plugin is the main work of an agent without tasks, and what has
// been absent for long seldom appears without a reload or a task that demands it.
func absentFactor(checks int) time.Duration {
	return time.Duration(min(1<<min(checks, 10), restFactor))
}

// wanted returns the bell of a resting plugin; nil if it is not resting.
func (s *Plugin) wanted(now *live) bell {
	if now != nil || !s.snapshot().State.Rests() {
		return nil
	}
	return s.wake
}
