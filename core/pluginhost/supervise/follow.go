// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"context"

	"github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Vanish handles that the plugin's file was removed: the plugin continues while it has
// tasks. It reports whether it is over.
func (s *Plugin) Vanish(ctx context.Context) (over bool, err error) {
	f := s.File()
	if f.Stored == "" {
		if stored, ok := s.shared.Versions.Has(s.name, s.shared.Catalog.Get(s.name).Running); ok {
			f.Stored = stored
			s.moveTo(f)
		}
	}
	if err := s.Withdraw(ctx, Gone); err != nil {
		return false, err
	}
	if err := s.Settle(ctx); err != nil || s.snapshot().PID != 0 {
		return false, err
	}
	return s.rests(), nil
}

// Tried reports whether the plugin was last tried with the file of this identity.
func (s *Plugin) Tried(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried == id
}

func (s *Plugin) note(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried = id
}

// Replace switches to another version of the file in plugin_dir.
func (s *Plugin) Replace(ctx context.Context, f process.File) error {
	id := process.Identity(f.Path)
	digest, err := s.shared.Versions.Digest(f.Path)
	if err != nil {
		return err
	}
	if process.Identity(f.Path) != id {
		return nil // it is still changing; the next check handles it
	}
	s.note(id)
	m := s.shared.Catalog.Get(s.name)
	if why, bad := m.IsBad(digest); bad && m.Running != digest {
		return s.ask(ctx, func(ctx context.Context, now *live) (*live, error) {
			return s.returnTo(ctx, now, digest, errdefs.FailedPreconditionf("plugin %q: the version %s was tried before and is not tried again by itself; "+
				"install it or reload the plugin to have it tried: %s", s.name, digest, why))
		})
	}
	return s.ask(ctx, func(ctx context.Context, now *live) (*live, error) { return s.switchFile(ctx, now, f, digest) })
}

// switchFile upgrades to the file that lies in plugin_dir now.
func (s *Plugin) switchFile(ctx context.Context, now *live, f process.File, digest string) (*live, error) {
	m := s.shared.Catalog.Get(s.name)
	if now == nil || m.Running == digest { // no process to take over from, or the same bytes in another file
		return s.comeBack(ctx, now, f)
	}
	s.shared.Logger.Info("the file of a plugin was replaced", "plugin", s.name, "digest", digest)
	end := s.shared.Works.Begin(s.name, "follow")
	next, err := s.upgrade(ctx, now, candidate{file: f, digest: digest, config: m.Config})
	end(err)
	if err != nil && process.IsBusy(err) {
		s.note("") // it is still being written: the next look tries again
		return next, nil
	}
	s.judge(ctx, digest, err)
	if err == nil {
		_, err = s.shared.Versions.Keep(s.name, digest, f.Path)
		return next, err
	}
	after := s.shared.Catalog.Get(s.name)
	if _, bad := after.IsBad(digest); bad {
		return s.returnTo(ctx, next, digest, err)
	}
	return next, err
}

// comeBack makes the file in plugin_dir the plugin's version again; the plugin runs it
// already or is started.
func (s *Plugin) comeBack(ctx context.Context, now *live, f process.File) (*live, error) {
	if s.Mode() != On {
		if err := s.shared.Catalog.Change(ctx, s.name, func(m *install.Memo) { m.Disabled, m.Kept = false, false }); err != nil {
			return now, err
		}
	}
	s.moveTo(f)
	s.setMode(On)
	s.shared.Kinds.Refuse(s.name, nil)
	return s.rouse(ctx, now)
}
