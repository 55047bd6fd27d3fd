// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// errAbsent is why a process is ended that found nothing to serve: it says nothing
// new about what it serves.
var errAbsent = errdefs.Unavailablef("the plugin is not kept running, since what it is for is not on this machine; it looks again from time to time")

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

// absent reports whether the process serves nothing and nobody needs it.
func (l *live) absent(now time.Time, grace time.Duration) bool {
	for _, one := range l.parts {
		if !one.absent(now, grace) {
			return false
		}
	}
	return len(l.parts) > 0
}

// absent: no driver is there, has a task or was called lately; see part.
func (s *driverSession) absent(now time.Time, grace time.Duration) bool {
	for _, name := range s.names() {
		if used, idle := s.drivers.entryOf(name).proxy.Idle(); !idle || now.Sub(used) < grace {
			return false
		}
	}
	return s.presence.gone(len(s.backends), now, grace)
}

// absent: no device is there; see part.
func (s *deviceSession) absent(now time.Time, grace time.Duration) bool {
	return s.presence.gone(len(s.backends), now, grace)
}

// absent: a collector always has a machine to measure; see part.
func (s *collectorSession) absent(time.Time, time.Duration) bool { return false }

// settled ends a process that found nothing to serve, until it is wanted or the
// next look is due, and shows one that did as running. Meanwhile the plugin keeps
// its state, so that looks are no news for servers.
func (s *supervised) settled(now *live, look *time.Timer) *live {
	if now == nil {
		return nil
	}
	cfg := &s.host.cfg
	if s.modeNow() != modeOn || !now.absent(time.Now(), cfg.AbsentInterval/2) {
		if s.snapshot().State == StateUndetected {
			s.set(func(st *PluginStatus) { st.State = StateRunning })
		}
		return now
	}
	pause := jittered(cfg.AbsentInterval)
	cfg.Logger.Debug("a plugin found nothing to serve and is not kept running", "plugin", s.name, "next_look", pause)
	s.wake.hush()
	now.detach(errAbsent)
	now.proc.stop()
	s.host.forgetProcess(s.name)
	s.set(func(st *PluginStatus) { st.State, st.PID, st.Reattached = StateUndetected, 0, false })
	look.Reset(pause)
	return nil
}

// wanted is the bell of a plugin that rests because it found nothing to serve; a
// nil one has none.
func (s *supervised) wanted(now *live) bell {
	if now != nil || s.snapshot().State != StateUndetected {
		return nil
	}
	return s.wake
}
