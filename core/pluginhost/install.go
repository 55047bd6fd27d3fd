// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"fmt"
	"io"

	"github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Install fetches and verifies a release and switches to it. The new process is
// prepared beside the old one, which stays if anything fails. It returns when the
// outcome is known. A release that already runs with the same digest and config
// changes nothing.
func (h *Host) Install(ctx context.Context, r Release) (PluginStatus, error) {
	return h.InstallFrom(ctx, r, nil)
}

// TrialError means that a version was tried and does not work on this machine; it has
// the class of its cause.
type TrialError struct{ Err error }

// Error returns the cause.
func (e *TrialError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TrialError) Unwrap() error { return e.Err }

// InstallFrom is Install with the file's contents from body instead of Source.
func (h *Host) InstallFrom(ctx context.Context, r Release, body io.Reader) (PluginStatus, error) {
	if err := r.Check(body); err != nil {
		return PluginStatus{}, err
	}
	unlock, err := h.lock(ctx, r.Name)
	if err != nil {
		return PluginStatus{}, err
	}
	defer unlock()
	if st, ok := h.runs(r); ok && r.Digest != "" {
		return st, nil
	}
	end := h.works.Begin(r.Name, h.actionOn(r.Name))
	err = h.install(ctx, r, body)
	end(err)
	if err != nil {
		return PluginStatus{}, err
	}
	return h.one(r.Name)
}

// actionOn returns the name of the action: an installation or an upgrade.
func (h *Host) actionOn(name string) string {
	if h.catalog.Get(name).Running == "" {
		return install.ActionInstall
	}
	return install.ActionUpgrade
}

// InstallDetached starts the operation of InstallFrom and returns once it can continue
// without the caller: the body was read completely, or a file is being fetched. The
// outcome is in the plugin's Work.
func (h *Host) InstallDetached(ctx context.Context, r Release, body io.Reader) error {
	if err := r.Check(body); err != nil {
		return err
	}
	unlock, err := h.lock(ctx, r.Name)
	if err != nil {
		return err
	}
	end := h.works.Begin(r.Name, h.actionOn(r.Name))
	if body != nil {
		if _, r.Digest, err = h.versions.Obtain(ctx, r, body); err != nil {
			end(err)
			unlock()
			return err
		}
	}
	begun := h.inBackground(func(run context.Context) {
		defer unlock()
		err := h.install(run, r, nil)
		end(err)
		if err != nil {
			h.cfg.Logger.Error("a plugin could not be installed", "plugin", r.Name, "error", err)
		}
	})
	if !begun {
		err := errdefs.Unavailablef("the plugin host does not run")
		end(err)
		unlock()
		return err
	}
	return nil
}

// inBackground runs do in a goroutine that ends with the host; it returns false if the
// host has ended.
func (h *Host) inBackground(do func(context.Context)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run == nil || h.closed {
		return false
	}
	run := h.run
	h.done.Go(func() { do(run) })
	return true
}

// install obtains a release and switches to it. The plugin's lock is held.
func (h *Host) install(ctx context.Context, r Release, body io.Reader) error {
	stored, digest, err := h.versions.Obtain(ctx, r, body)
	if err != nil {
		return err
	}
	r.Digest = digest
	if _, ok := h.runs(r); ok {
		return nil
	}
	defer h.shared.Prune(r.Name)
	action := h.actionOn(r.Name)
	if err := h.switchTo(ctx, r, stored); err != nil {
		return fmt.Errorf("%s plugin %q: %w", action, r.Name, &TrialError{err})
	}
	return nil
}

// runs reports whether the release is already running.
func (h *Host) runs(r Release) (PluginStatus, bool) {
	st, err := h.one(r.Name)
	running := st.State == StateRunning || st.State.Rests() || st.State == StateNotAnswering
	if err != nil || !running || st.Digest != r.Digest || (r.Version != "" && st.Version != r.Version) {
		return st, false
	}
	m := h.catalog.Get(r.Name)
	return st, m.Running == r.Digest && install.SameConfig(m.Config, r.Config)
}

// switchTo tries a stored version and makes it the file in plugin_dir.
func (h *Host) switchTo(ctx context.Context, r Release, stored string) error {
	s, fresh, err := h.plugin(r.Name)
	if err != nil {
		return err
	}
	err = s.Install(ctx, r, stored)
	if err != nil && fresh {
		h.drop(s)
	}
	if err == nil {
		h.renewInstances(ctx, r.Name)
	}
	return err
}

// Rollback switches back to the version that ran before this one.
func (h *Host) Rollback(ctx context.Context, name string) (PluginStatus, error) {
	unlock, err := h.lock(ctx, name)
	if err != nil {
		return PluginStatus{}, err
	}
	defer unlock()
	if _, err := h.one(name); err != nil {
		return PluginStatus{}, err
	}
	m := h.catalog.Get(name)
	stored, ok := h.versions.Has(name, m.Previous)
	if !ok {
		return PluginStatus{}, errdefs.FailedPreconditionf("plugin %q: no version before the present one is kept; install the one that you want", name)
	}
	end := h.works.Begin(name, "rollback")
	err = h.switchTo(ctx, Release{Name: name, Digest: m.Previous, Config: m.Config}, stored)
	end(err)
	if err != nil {
		return PluginStatus{}, fmt.Errorf("roll plugin %q back: %w", name, err)
	}
	h.shared.Prune(name)
	return h.one(name)
}
