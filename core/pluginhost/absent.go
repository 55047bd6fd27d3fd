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

// Why a process is ended that nobody needs: it says nothing new about what it
// serves.
var (
	errAbsent  = errdefs.Unavailablef("the plugin is not kept running, since what it is for is not on this machine; it looks again from time to time")
	errResting = errdefs.Unavailablef("the plugin is not kept running, since nobody used it; it is being started again")
)

// presence is what of a process's names is there on this machine, by the newest
// fingerprints.
type presence struct {
	mu     sync.Mutex
	there  map[string]bool
	ever   bool      // something was there
	absent time.Time // since when nothing is
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

// known reports whether there is a fingerprint of each of so many names.
func (p *presence) known(names int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.there) >= names && names > 0
}

// any reports whether something is there.
func (p *presence) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.none()
}

// none: no name is there; p.mu is held.
func (p *presence) none() bool {
	for _, there := range p.there {
		if there {
			return false
		}
	}
	return true
}

// gone reports whether all of so many names are absent: from the start, or, since
// a daemon may only be starting anew, for as long as grace.
func (p *presence) gone(names int, now time.Time, grace time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.there) < names || names == 0 || !p.none() {
		return false
	}
	return !p.ever || now.Sub(p.absent) >= grace
}

// rests reports whether a plugin in this state has no process because nobody needs
// one: a call starts it.
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

// there reports whether something of what the process serves is on this machine.
func (l *live) there() bool {
	return slices.ContainsFunc(l.parts, func(p part) bool { return p.there() })
}

// retire holds calls of all parts back; false if one is under way.
func (l *live) retire(ctx context.Context, reason error) bool {
	for _, one := range l.parts {
		if !one.retire(ctx, reason) {
			return false
		}
	}
	return true
}

// unneeded: no driver has a task or was called lately, and none is there or each
// is started on demand; see part.
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

// retire: a driver whose calls were held back when another turned out to have one
// under way gets them back; see part.
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

// unneeded: no device is there; see part.
func (s *deviceSession) unneeded(now time.Time, grace time.Duration) bool {
	return s.presence.gone(len(s.backends), now, grace)
}

func (s *deviceSession) there() bool { return s.presence.any() }

// retire has nothing to hold back: there are no devices to reserve; see part.
func (s *deviceSession) retire(context.Context, error) bool { return true }

// unneeded: nobody wants to know what the machine does; see part.
func (s *collectorSession) unneeded(time.Time, time.Duration) bool {
	return !slices.ContainsFunc(s.names(), s.collectors.wanted)
}

// there: a collector always has a machine to measure; see part.
func (s *collectorSession) there() bool { return true }

// retire has nothing to hold back: a stream that is opened now is opened again;
// see part.
func (s *collectorSession) retire(context.Context, error) bool { return true }

// restFactor is how much more seldom a plugin is looked at that is there and rests
// than one that found nothing.
const restFactor = 10

// settled ends a process that nobody needs, until it is wanted or the next look is
// due, and shows one that did as running. Meanwhile the plugin keeps its state, so
// that looks are no news for servers.
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
	now.proc.stop()
	s.host.forgetProcess(s.name)
	s.set(func(st *PluginStatus) { st.State, st.PID, st.Reattached = state, 0, false })
	look.Reset(pause)
	return nil
}

// wanted is the bell of a plugin that rests; a nil one has none.
func (s *supervised) wanted(now *live) bell {
	if now != nil || !s.snapshot().State.rests() {
		return nil
	}
	return s.wake
}
