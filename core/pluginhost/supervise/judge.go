// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"context"
	"errors"
	"time"

	"github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// blamelessError is a failure that is not the fault of the version that was tried: the
// destination is not writable, or the request was wrong.
type blamelessError struct{ error }

// Unwrap returns the cause.
func (e *blamelessError) Unwrap() error { return e.error }

// judge records the outcome of an upgrade.
func (s *Plugin) judge(ctx context.Context, digest string, err error) {
	if err == nil {
		s.set(func(st *Status) { st.Digest = digest })
		s.onProbation(digest)
		return
	}
	what := "a new version of a plugin does not work; the one before stays"
	if s.shared.Catalog.Get(s.name).Running == "" {
		what = "a plugin does not work, so it is not installed"
	}
	s.shared.Logger.Error(what, "plugin", s.name, "digest", digest, "error", err)
	s.set(func(st *Status) { st.UpgradeError = err })
	if innocent := (*blamelessError)(nil); ctx.Err() != nil || errdefs.IsResourceExhausted(err) || errors.As(err, &innocent) {
		return // the version is not to blame
	}
	if err := s.shared.Catalog.Change(ctx, s.name, func(m *install.Memo) { m.AddBad(digest, err.Error(), time.Now().UTC()) }); err != nil {
		s.shared.Logger.Warn("that a version of a plugin is bad will be forgotten", "plugin", s.name, "error", err)
	}
}

// probation is the period after a takeover in which repeated crashes cause a rollback.
type probation struct {
	until   time.Time
	crashes int
	digest  string // digest of the version on probation
}

// onProbation begins the probation, if there is a version to return to.
func (s *Plugin) onProbation(digest string) {
	m := s.shared.Catalog.Get(s.name)
	if _, ok := s.shared.Versions.Has(s.name, m.Previous); !ok {
		s.probation = nil
		return
	}
	s.probation = &probation{until: time.Now().Add(s.shared.Probation), digest: digest}
}

// crashed counts a failure. If a version on probation has crashed too often, crashed rolls
// back to the previous version and returns its process.
func (s *Plugin) crashed(ctx context.Context, reason error) *live {
	on := s.probation
	if on == nil || time.Now().After(on.until) {
		s.probation = nil
		return nil
	}
	if on.crashes++; on.crashes < s.shared.ProbationCrashes {
		return nil
	}
	s.probation = nil
	why := errdefs.Abortedf("plugin %q: the version %s crashed %d times within %s of taking over, so the version before it was put back; the last time: %w",
		s.name, on.digest, on.crashes, s.shared.Probation, reason)
	now, err := s.returnTo(ctx, nil, on.digest, why)
	if err != nil {
		s.shared.Logger.Error("the version before could not be put back", "plugin", s.name, "error", err)
	}
	return now
}

// returnTo restores the version before a bad one, as process and as file. now is the
// current process, which must be of that version, or nil: it is then started.
func (s *Plugin) returnTo(ctx context.Context, now *live, bad string, why error) (*live, error) {
	m := s.shared.Catalog.Get(s.name)
	good := m.Running
	if good == bad {
		good = m.Previous
	}
	s.shared.Logger.Error("a version of a plugin is taken back", "plugin", s.name, "digest", bad, "error", why)
	stored, ok := s.shared.Versions.Has(s.name, good)
	if !ok {
		return now, errdefs.FailedPreconditionf("plugin %q: there is no copy of the version before", s.name)
	}
	err := s.shared.Catalog.Change(ctx, s.name, func(m *install.Memo) {
		m.AddBad(bad, why.Error(), time.Now().UTC())
		if m.Running == bad {
			m.Running, m.Previous = good, ""
		}
	})
	if err == nil {
		err = s.shared.Dir.Place(stored, s.File().Path)
	}
	if err == nil {
		s.note(process.Identity(s.File().Path))
	}
	s.set(func(st *Status) {
		st.UpgradeError = why
		if err == nil {
			st.Digest = good
		}
	})
	if err != nil || now != nil {
		return now, err
	}
	return s.start(ctx, false)
}

// remember records the working version, to which a rollback returns.
func (s *Plugin) remember(ctx context.Context, f process.File, digest string) {
	m := s.shared.Catalog.Get(f.Name)
	if _, ok := s.shared.Versions.Has(f.Name, digest); ok && m.Running == digest {
		return
	}
	_, err := s.shared.Versions.Keep(f.Name, digest, f.Binary())
	if err == nil {
		err = s.shared.Catalog.Change(ctx, f.Name, func(m *install.Memo) {
			if m.Running != "" && m.Running != digest {
				m.Previous = m.Running
			}
			m.Running = digest
		})
	}
	if err != nil && ctx.Err() == nil {
		s.shared.Logger.Warn("no copy of the plugin's version is kept, so a bad upgrade cannot be rolled back", "plugin", f.Name, "error", err)
		return
	}
	s.shared.Prune(f.Name)
}
