// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Reasons for ending a process that nobody needs. They say nothing new about what the
// process serves.
var (
	errAbsent  = errdefs.Unavailablef("the plugin is not kept running, since what it is for is not on this machine; it looks again from time to time")
	errResting = errdefs.Unavailablef("the plugin is not kept running, since nobody used it; it is being started again")
)

// presence records, from the newest fingerprints, which of a process's names exist on
// this machine.
type presence struct {
	mu     sync.Mutex
	there  map[string]bool
	ever   bool      // something has been present
	absent time.Time // since when nothing is present
}

func (p *presence) note(name string, there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.there == nil {
		p.there = map[string]bool{}
	}
	p.there[name] = there
	p.ever = p.ever || there
	if p.none() {
		if p.absent.IsZero() {
			p.absent = time.Now()
		}
		return
	}
	p.absent = time.Time{}
}

// known reports whether there is a fingerprint for each of the given number of names.
func (p *presence) known(names int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.there) >= names && names > 0
}

// any reports whether anything is present.
func (p *presence) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.none()
}

// none reports whether no name is present. p.mu must be held.
func (p *presence) none() bool {
	for _, there := range p.there {
		if there {
			return false
		}
	}
	return true
}

// gone reports whether all names are absent: from the start, or, because a daemon may
// only be restarting, for as long as grace.
func (p *presence) gone(names int, now time.Time, grace time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.there) < names || names == 0 || !p.none() {
		return false
	}
	return !p.ever || now.Sub(p.absent) >= grace
}

// rests reports whether a plugin in this state has no process because nobody needs
// one; a call then starts it.
func (st State) rests() bool { return st == StateUndetected || st == StateResting }

// unneeded reports whether nobody needs the process.
func (l *live) unneeded(now time.Time, grace time.Duration) bool {
	for _, one := range l.parts {
		if !one.unneeded(now, grace) {
			return false
		}
	}
	return len(l.parts) > 0
}

// there reports whether anything that the process serves is present on this machine.
func (l *live) there() bool {
	return slices.ContainsFunc(l.parts, func(p part) bool { return p.there() })
}

// retire holds back calls of all parts; it returns false if one is in progress.
func (l *live) retire(ctx context.Context, reason error) bool {
	for _, one := range l.parts {
		if !one.retire(ctx, reason) {
			return false
		}
	}
	return true
}

// unneeded implements part: no driver has a task or was called recently, and either
// none is present or all are started on demand.
func (s *driverSession) unneeded(now time.Time, grace time.Duration) bool {
	onDemand := true
	for _, b := range s.backends {
		if used, idle := s.drivers.entryOf(b.Info().Name).proxy.Idle(); !idle || now.Sub(used) < grace {
			return false
		}
		onDemand = onDemand && b.Info().Capabilities.OnDemand
	}
	return s.presence.gone(len(s.backends), now, grace) || onDemand && s.presence.known(len(s.backends))
}

func (s *driverSession) there() bool { return s.presence.any() }

// retire implements part. If one driver has a call in progress, the others' calls are
// released again.
func (s *driverSession) retire(ctx context.Context, reason error) bool {
	for i, b := range s.backends {
		if s.drivers.entryOf(b.Info().Name).proxy.Retire(reason) {
			continue
		}
		for _, before := range s.backends[:i] {
			s.drivers.entryOf(before.Info().Name).proxy.Attach(ctx, before)
		}
		return false
	}
	return true
}

// unneeded implements part: no device is present.
func (s *deviceSession) unneeded(now time.Time, grace time.Duration) bool {
	return s.presence.gone(len(s.backends), now, grace)
}

func (s *deviceSession) there() bool { return s.presence.any() }

// retire implements part. It has nothing to hold back: there are no devices to
// reserve.
func (s *deviceSession) retire(context.Context, error) bool { return true }

// unneeded implements part: there is no consumer of the samples.
func (s *collectorSession) unneeded(time.Time, time.Duration) bool {
	return !slices.ContainsFunc(s.names(), s.collectors.wanted)
}

// there implements part: a collector always has a machine to measure.
func (s *collectorSession) there() bool { return true }

// retire implements part. It has nothing to hold back: a stream that is opened now is
// opened again later.
func (s *collectorSession) retire(context.Context, error) bool { return true }

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
	state, why, pause := StateUndetected, errAbsent, jittered(cfg.AbsentInterval)
	if now.there() {
		state, why, pause = StateResting, errResting, restFactor*pause
	}
	if s.modeNow() != modeOn || !now.unneeded(time.Now(), cfg.AbsentInterval/2) || !now.retire(ctx, why) {
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
