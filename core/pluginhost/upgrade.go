// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// upgrade starts the candidate beside the current process, has it recover every task,
// and switches to it. If anything fails, the candidate is ended and now continues
// unchanged. It runs in s.run.
func (s *supervised) upgrade(ctx context.Context, now *live, c candidate) (*live, error) {
	h := s.host
	ready, cancel := context.WithTimeout(ctx, h.cfg.UpgradeTimeout)
	defer cancel()
	h.works.Step(s.name, install.StepStarting, 0)
	p, err := h.launcher.Launch(ready, c.file)
	if err != nil {
		return now, err
	}
	if err := h.launcher.Others.Add(ready, s.name, p); err != nil {
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
		h.launcher.Others.Drop(s.name, p)
		h.kinds.Release(s.name, now.serves())
		return now, err
	}
	return s.takeOver(run, ready, stop, now, p, parts)
}

// try makes the candidate's process ready to take over.
func (s *supervised) try(run, ready context.Context, now *live, p *process.Process, c candidate) (kinds.Parts, error) {
	if c.version != "" && p.Info.Version != c.version {
		return nil, &blamelessError{errdefs.FailedPreconditionf("plugin %s: it says that it is version %q, and %q is wanted; correct the version or the source", c.file.Path, p.Info.Version, c.version)}
	}
	parts, err := s.host.attach(ready, p)
	if err != nil {
		return nil, err
	}
	serves := parts.Names()
	if n := s.host.kinds.Drivers.Tasks(s.name, serves); n > 0 {
		return parts, errdefs.FailedPreconditionf("plugin %s: serves %v only, and %d tasks run with drivers that the version before served; stop those first", c.file.Path, serves, n)
	}
	s.host.works.Recovering(s.name, s.host.kinds.Drivers.Tasks(s.name, nil))
	configs := s.host.configsWith(s.name, c.config, parts)
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
func (s *supervised) commit(ctx context.Context, now *live, p *process.Process, c candidate) error {
	h := s.host
	h.works.Step(s.name, install.StepSwitching, 0)
	if now != nil {
		if err := h.launcher.Others.Add(ctx, s.name, now.proc); err != nil {
			return err
		}
	}
	before := h.catalog.Get(s.name)
	err := h.catalog.Change(ctx, s.name, func(m *install.Memo) {
		if m.Running != c.digest && m.Running != "" {
			m.Previous = m.Running
		}
		m.Running, m.Config = c.digest, c.config
		m.Disabled, m.Kept = false, false
		m.Forgive(c.digest)
	})
	if err == nil && c.place != nil {
		if err = c.place(); err != nil {
			err = &blamelessError{errors.Join(err, h.catalog.Change(ctx, s.name, func(m *install.Memo) { *m = before }))}
		}
	}
	if err == nil {
		err = h.launcher.Save(ctx, p)
	}
	return err
}

// takeOver switches to the new process, and ends the old one once it has no calls in
// progress.
func (s *supervised) takeOver(run, ready context.Context, stop context.CancelFunc, now *live, p *process.Process, parts kinds.Parts) (*live, error) {
	h := s.host
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
	f := s.where()
	f.Stored = ""
	s.moveTo(f)
	s.note(process.Identity(f.Path))
	s.setMode(modeOn)
	next := s.serve(run, stop, p, parts)
	s.set(func(st *PluginStatus) { st.UpgradeError = nil })
	if now != nil {
		h.done.Go(func() { h.retire(run, s.name, now) })
	} else {
		h.launcher.Others.Drop(s.name, p)
	}
	h.kinds.Release(s.name, serves)
	h.kinds.Refuse(s.name, nil)
	return next, errors.Join(failed...)
}

// retire ends a replaced process once its calls in progress have ended.
func (h *Host) retire(ctx context.Context, name string, old *live) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.RetireTimeout)
	defer cancel()
	for _, one := range old.parts {
		if err := one.Drained(ctx); err != nil {
			h.cfg.Logger.Warn("an old plugin process is ended with calls under way; they fail as unavailable", "plugin", name, "pid", old.proc.PID, "error", err)
		}
	}
	old.proc.Stop()
	h.launcher.Others.Clear(name, old.proc)
}

// serves returns the names that a process serves; none for nil.
func (l *live) serves() []string {
	if l == nil {
		return nil
	}
	return l.parts.Names()
}

// configs are the blocks for what a plugin serves.
func (h *Host) configs(name string, parts kinds.Parts) map[string]map[string]any {
	return h.configsWith(name, h.catalog.Get(name).Config, parts)
}

// configsWith replaces the agent's blocks by the config of a release. If its keys are
// names that the plugin serves, each with a block, these are their blocks; otherwise
// it is the block of all names.
func (h *Host) configsWith(name string, config map[string]any, parts kinds.Parts) map[string]map[string]any {
	if config == nil {
		return h.cfg.DriverConfig
	}
	serves := parts.Names()
	blocks := map[string]map[string]any{}
	for key, value := range config {
		block, ok := blockOf(value)
		if !ok || !slices.Contains(serves, key) {
			return map[string]map[string]any{name: config}
		}
		blocks[key] = block
	}
	return blocks
}

// blockOf is a block as JSON has it, or as a file of HCL, where blocks are lists.
func blockOf(value any) (map[string]any, bool) {
	if list, ok := value.([]any); ok && len(list) == 1 {
		value = list[0]
	}
	block, ok := value.(map[string]any)
	return block, ok
}

// probation is the period after a takeover in which repeated crashes cause a rollback.
type probation struct {
	until   time.Time
	crashes int
	digest  string // that is on probation
}

// onProbation begins the probation, if there is a version to return to.
func (s *supervised) onProbation(digest string) {
	m := s.host.catalog.Get(s.name)
	if _, ok := s.host.versions.Has(s.name, m.Previous); !ok {
		s.probation = nil
		return
	}
	s.probation = &probation{until: time.Now().Add(s.host.cfg.Probation), digest: digest}
}

// crashed counts a failure. If a version on probation has crashed too often, it
// returns to the previous version and returns its process.
func (s *supervised) crashed(ctx context.Context, reason error) *live {
	on := s.probation
	if on == nil || time.Now().After(on.until) {
		s.probation = nil
		return nil
	}
	if on.crashes++; on.crashes < s.host.cfg.ProbationCrashes {
		return nil
	}
	s.probation = nil
	why := errdefs.Abortedf("plugin %q: the version %s crashed %d times within %s of taking over, so the version before it was put back; the last time: %w",
		s.name, on.digest, on.crashes, s.host.cfg.Probation, reason)
	now, err := s.host.returnTo(ctx, s, nil, on.digest, why)
	if err != nil {
		s.host.cfg.Logger.Error("the version before could not be put back", "plugin", s.name, "error", err)
	}
	return now
}
