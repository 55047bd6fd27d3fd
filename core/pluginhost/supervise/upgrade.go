// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// candidate is a version of a plugin that should take over.
type candidate struct {
	file    process.File
	digest  string
	version string // version that it must report; "" means any
	config  map[string]any
	// place makes it the file in plugin_dir; nil if it already is.
	place func() error
}

// upgrade starts the candidate beside the current process, makes it recover every task, and
// switches to it. If anything fails, the candidate is ended and now continues unchanged. It
// runs in s.run.
func (s *Plugin) upgrade(ctx context.Context, now *live, c candidate) (*live, error) {
	ready, cancel := context.WithTimeout(ctx, s.shared.UpgradeTimeout)
	defer cancel()
	s.shared.Works.Step(s.name, install.StepStarting, 0)
	p, err := s.shared.Launcher.Launch(ready, c.file)
	if err != nil {
		return now, err
	}
	if err := s.shared.Launcher.Others.Add(ready, s.name, p); err != nil {
		p.Kill()
		return now, err
	}
	run, stop := context.WithCancel(ctx)
	parts, err := s.try(run, ready, now, p, c)
	if err == nil {
		err = s.commit(ready, now, p, c)
	}
	if err != nil {
		stop()
		for _, one := range parts {
			one.Abandon()
		}
		p.Kill()
		s.shared.Launcher.Others.Drop(s.name, p)
		s.shared.Kinds.Release(s.name, now.serves())
		return now, err
	}
	return s.takeOver(run, ready, stop, now, p, parts)
}

// try makes the candidate's process ready to take over.
func (s *Plugin) try(run, ready context.Context, now *live, p *process.Process, c candidate) (kinds.Parts, error) {
	if c.version != "" && p.Info.Version != c.version {
		return nil, &blamelessError{errdefs.FailedPreconditionf("plugin %s: it says that it is version %q, and %q is wanted; correct the version or the source", c.file.Path, p.Info.Version, c.version)}
	}
	parts, err := s.shared.Kinds.Attach(ready, p)
	if err != nil {
		return nil, err
	}
	serves := parts.Names()
	if n := s.shared.Kinds.Drivers.Tasks(s.name, serves); n > 0 {
		return parts, errdefs.FailedPreconditionf("plugin %s: serves %v only, and %d tasks run with drivers that the version before served; stop those first", c.file.Path, serves, n)
	}
	s.shared.Works.Recovering(s.name, s.shared.Kinds.Drivers.Tasks(s.name, nil))
	configs := s.configsWith(c.config, parts)
	for _, one := range parts {
		if err := one.Prepare(run, ready, configs); err != nil {
			err = fmt.Errorf("plugin %s, version %s: %w", c.file.Path, p.Info.Version, err)
			if c.place != nil && c.config != nil && errdefs.IsInvalidArgument(err) {
				err = &blamelessError{err} // the config was given with the version
			}
			return parts, err
		}
	}
	return parts, nil
}

// commit makes the candidate the version that the next agent finds. If the agent is
// killed at any point in here, plugin_dir contains a complete file, and the next agent
// ends every process that does not match it.
func (s *Plugin) commit(ctx context.Context, now *live, p *process.Process, c candidate) error {
	s.shared.Works.Step(s.name, install.StepSwitching, 0)
	if now != nil {
		if err := s.shared.Launcher.Others.Add(ctx, s.name, now.proc); err != nil {
			return err
		}
	}
	before := s.shared.Catalog.Get(s.name)
	err := s.shared.Catalog.Change(ctx, s.name, func(m *install.Memo) {
		if m.Running != c.digest && m.Running != "" {
			m.Previous = m.Running
		}
		m.Running, m.Config = c.digest, c.config
		m.Disabled, m.Kept = false, false
		m.Forgive(c.digest)
	})
	if err == nil && c.place != nil {
		if err = c.place(); err != nil {
			err = &blamelessError{errors.Join(err, s.shared.Catalog.Change(ctx, s.name, func(m *install.Memo) { *m = before }))}
		}
	}
	if err == nil {
		err = s.shared.Launcher.Save(ctx, p)
	}
	return err
}

// takeOver switches to the new process, and ends the old one once it has no calls in
// progress.
func (s *Plugin) takeOver(run, ready context.Context, stop context.CancelFunc, now *live, p *process.Process, parts kinds.Parts) (*live, error) {
	serves := parts.Names()
	if now != nil {
		now.cancel()
		for _, one := range now.parts {
			one.Yield(serves)
		}
	}
	var failed []error
	for _, one := range parts {
		failed = append(failed, one.TakeOver(ready))
	}
	f := s.File()
	f.Stored = ""
	s.moveTo(f)
	s.note(process.Identity(f.Path))
	s.setMode(On)
	next := s.serve(run, stop, p, parts)
	s.set(func(st *Status) { st.UpgradeError = nil })
	if now != nil {
		s.shared.Go(func() { s.retire(run, now) })
	} else {
		s.shared.Launcher.Others.Drop(s.name, p)
	}
	s.shared.Kinds.Release(s.name, serves)
	s.shared.Kinds.Refuse(s.name, nil)
	return next, errors.Join(failed...)
}

// retire ends a replaced process once its calls in progress have ended.
func (s *Plugin) retire(ctx context.Context, old *live) {
	ctx, cancel := context.WithTimeout(ctx, s.shared.RetireTimeout)
	defer cancel()
	for _, one := range old.parts {
		if err := one.Drained(ctx); err != nil {
			s.shared.Logger.Warn("an old plugin process is ended with calls under way; they fail as unavailable", "plugin", s.name, "pid", old.proc.PID, "error", err)
		}
	}
	old.proc.Stop()
	s.shared.Launcher.Others.Clear(s.name, old.proc)
}

// Install switches to the file of a release, which is stored, and makes it the file in
// plugin_dir. The running process stays if anything fails.
func (s *Plugin) Install(ctx context.Context, r install.Release, stored string) error {
	path := s.File().Path
	c := candidate{
		file: process.File{Name: r.Name, Path: path, Stored: stored}, digest: r.Digest, version: r.Version, config: r.Config,
		place: func() error { return s.shared.Dir.Place(stored, path) },
	}
	return s.ask(ctx, func(ctx context.Context, now *live) (*live, error) {
		next, err := s.upgrade(ctx, now, c)
		s.judge(ctx, c.digest, err)
		return next, err
	})
}
