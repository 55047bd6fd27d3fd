// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/pluginhost/kinds"
)

// rests reports whether a plugin in this state has no process because nobody needs
// one; a call then starts it.
func (st State) rests() bool { return st == StateUndetected || st == StateResting }

// restFactor is how much longer the interval of checks is for a resting plugin than
// for one that found nothing.
const restFactor = 10

// settled ends a process that nobody needs, until it is wanted or the next check is
// due, and shows the result. During a check the plugin keeps its state, so that checks
// cause no reports to servers.
func (s *supervised) settled(ctx context.Context, now *live, look *time.Timer) *live {
	if now == nil {
		return nil
	}
	cfg := &s.host.cfg
	state, why, pause := StateUndetected, kinds.ErrAbsent, jittered(cfg.AbsentInterval)
	if now.parts.Present() {
		state, why, pause = StateResting, kinds.ErrResting, restFactor*pause
	}
	if s.modeNow() != modeOn || !now.parts.Unneeded(time.Now(), cfg.AbsentInterval/2) || !now.parts.Retire(ctx, why) {
		if s.snapshot().State.rests() {
			s.set(func(st *PluginStatus) { st.State = StateRunning })
		}
		return now
	}
	cfg.Logger.Debug("a plugin that nobody needs is not kept running", "plugin", s.name, "state", state, "next_look", pause)
	s.wake.hush()
	now.detach(why)
	now.proc.Stop()
	s.host.launcher.Forget(s.name)
	s.set(func(st *PluginStatus) { st.State, st.PID, st.Reattached = state, 0, false })
	look.Reset(pause)
	return nil
}

// wanted returns the bell of a resting plugin; nil if it is not resting.
func (s *supervised) wanted(now *live) bell {
	if now != nil || !s.snapshot().State.rests() {
		return nil
	}
	return s.wake
}
