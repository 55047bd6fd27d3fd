// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Mode is the operator's setting for a plugin: enabled, disabled or removed.
type Mode int

// The modes.
const (
	On       Mode = iota
	Disabled      // runs only while tasks need it, and accepts no new ones
	Gone          // like disabled, and its file was removed; it is forgotten after its last task
)

func (s *Plugin) setMode(m Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = m
}

// Mode returns the operator's setting for the plugin.
func (s *Plugin) Mode() Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
}

// state is the one to show for a running or resting plugin.
func (m Mode) state(otherwise State) State {
	switch m {
	case Disabled:
		return StateDisabled
	case Gone:
		return StateRemoved
	}
	return otherwise
}

// rests reports whether the plugin should not be started again.
func (s *Plugin) rests() bool {
	return s.Mode() != On && s.shared.Kinds.Drivers.Tasks(s.name, nil) == 0
}

func (s *Plugin) restAfter(err error) {
	s.set(func(st *Status) {
		st.PID, st.LastError = 0, err
		st.State = s.mode.state(StateStopped)
	})
}

// rest ends the process of a plugin that should no longer run.
func (s *Plugin) rest(now *live) *live {
	if now != nil {
		now.detach(errdefs.Unavailablef("plugin %q: it was %s", s.name, s.Mode().state(StateStopped)))
		now.proc.Stop()
		s.shared.Launcher.Forget(s.name)
	}
	s.shared.Kinds.Release(s.name, nil)
	s.set(func(st *Status) {
		st.PID, st.Reattached, st.State = 0, false, s.mode.state(StateStopped)
	})
	return nil
}

// Withdraw makes a plugin end once no task needs it.
func (s *Plugin) Withdraw(ctx context.Context, m Mode) error {
	if s.Mode() == m {
		return nil
	}
	kept := s.shared.Kinds.Drivers.Tasks(s.name, nil) > 0
	err := s.shared.Catalog.Change(ctx, s.name, func(memo *install.Memo) { memo.Disabled, memo.Kept = m == Disabled, kept })
	if err != nil {
		return err
	}
	s.setMode(m)
	s.shared.Kinds.Refuse(s.name, withdrawn(s.name, m))
	s.set(func(st *Status) { st.State = m.state(st.State) })
	s.shared.Logger.Info("plugin takes no new tasks", "plugin", s.name, "because", m.state(""))
	return s.Settle(ctx)
}

func withdrawn(name string, m Mode) error {
	return errdefs.FailedPreconditionf("plugin %q is %s and takes no new tasks", name, m.state(""))
}

// Settle ends the process of a withdrawn plugin that has no tasks.
func (s *Plugin) Settle(ctx context.Context) error {
	if !s.rests() || time.Now().Before(s.patience) {
		return nil
	}
	err := s.ask(ctx, func(_ context.Context, now *live) (*live, error) {
		if !s.rests() {
			return now, nil
		}
		return s.rest(now), nil
	})
	if err != nil || s.snapshot().PID != 0 || !s.shared.Catalog.Get(s.name).Kept {
		return err
	}
	return s.shared.Catalog.Change(ctx, s.name, func(m *install.Memo) { m.Kept = false })
}

// Enable lets a withdrawn plugin accept tasks again.
func (s *Plugin) Enable(ctx context.Context) error {
	if err := s.shared.Catalog.Change(ctx, s.name, func(m *install.Memo) { m.Disabled, m.Kept = false, false }); err != nil {
		return err
	}
	s.setMode(On)
	s.shared.Kinds.Refuse(s.name, nil)
	return s.ask(ctx, func(ctx context.Context, now *live) (*live, error) { return s.rouse(ctx, now) })
}

// rouse starts a process if none runs, and updates the status.
func (s *Plugin) rouse(ctx context.Context, now *live) (*live, error) {
	if now != nil {
		s.set(func(st *Status) { st.State = s.mode.state(StateRunning) })
		return now, nil
	}
	now, err := s.start(ctx, false)
	if err != nil {
		s.set(func(st *Status) { st.State, st.LastError = StateBackingOff, err })
	}
	return now, err
}

// Reload starts a new process beside the running one, which stays if the new one does
// not become ready. A plugin that waits for its next start is started at once, and bad
// versions may be tried again. FailedPrecondition: the plugin is not on.
func (s *Plugin) Reload(ctx context.Context) (err error) {
	name := s.name
	if s.Mode() != On {
		return errdefs.FailedPreconditionf("plugin %q is %s; enable or install it first", name, s.Mode().state(""))
	}
	if err := s.shared.Catalog.Change(ctx, name, func(m *install.Memo) { m.Bad = nil }); err != nil {
		return err
	}
	f := s.File()
	digest, err := s.shared.Versions.Digest(f.Binary())
	if err != nil {
		return err
	}
	c := candidate{file: f, digest: digest, config: s.shared.Catalog.Get(name).Config}
	end := s.shared.Works.Begin(name, "reload")
	defer func() { end(err) }()
	return s.ask(ctx, func(ctx context.Context, now *live) (*live, error) {
		if now == nil {
			return s.rouse(ctx, nil)
		}
		next, err := s.upgrade(ctx, now, c)
		if err != nil {
			s.set(func(st *Status) { st.UpgradeError = err })
			return next, fmt.Errorf("reload plugin %q: the previous process stays: %w", name, err)
		}
		return next, nil
	})
}
