// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Release is one version of a plugin to run.
type Release struct {
	Name    string         // file name in Dir
	Version string         // version that the plugin must report; "" means any
	Source  string         // http(s) URL or an absolute path on this machine
	Digest  string         // "sha256:HEX"; required for plain http URLs, verified if given
	Config  map[string]any // replaces the block of the agent's configuration if not nil
	Size    int64          // size of the file, if known in advance; used to report progress
}

// pluginName is what a plugin may be called: its file name, without the suffix of
// an executable.
var pluginName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (r Release) check(body io.Reader) error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if r.Digest != "" {
		if err := checkDigest(r.Digest); err != nil {
			return err
		}
	}
	if body != nil && r.Digest == "" {
		return errdefs.InvalidArgumentf("plugin %q: a file that is sent needs its digest, so that one that arrives in part is not taken for whole", r.Name)
	}
	if body != nil {
		return nil
	}
	return checkSource(r.Source, r.Digest)
}

func checkName(name string) error {
	if !pluginName.MatchString(name) {
		return errdefs.InvalidArgumentf("the plugin name %q cannot be used: it is a file name of letters, digits, '.', '_' and '-', which begins with a letter or digit", name)
	}
	return nil
}

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
	if err := r.check(body); err != nil {
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
	end := h.works.begin(r.Name, "install")
	err = h.install(ctx, r, body)
	end(err)
	if err != nil {
		return PluginStatus{}, err
	}
	return h.one(r.Name)
}

// InstallDetached starts the operation of InstallFrom and returns once it can continue
// without the caller: the body was read completely, or a file is being fetched. The
// outcome is in the plugin's Work.
func (h *Host) InstallDetached(ctx context.Context, r Release, body io.Reader) error {
	if err := r.check(body); err != nil {
		return err
	}
	unlock, err := h.lock(ctx, r.Name)
	if err != nil {
		return err
	}
	end := h.works.begin(r.Name, "install")
	if body != nil {
		if _, r.Digest, err = h.obtain(ctx, r, body); err != nil {
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
	stored, digest, err := h.obtain(ctx, r, body)
	if err != nil {
		return err
	}
	r.Digest = digest
	if _, ok := h.runs(r); ok {
		return nil
	}
	defer h.prune(r.Name)
	if err := h.switchTo(ctx, r, stored); err != nil {
		return fmt.Errorf("install plugin %q: %w", r.Name, &TrialError{err})
	}
	return nil
}

// runs reports whether the release is already running.
func (h *Host) runs(r Release) (PluginStatus, bool) {
	st, err := h.one(r.Name)
	running := st.State == StateRunning || st.State.rests() || st.State == StateNotAnswering
	if err != nil || !running || st.Digest != r.Digest || (r.Version != "" && st.Version != r.Version) {
		return st, false
	}
	m := h.catalog.get(r.Name)
	return st, m.Running == r.Digest && sameConfig(m.Config, r.Config)
}

// sameConfig compares configs as JSON, because the store does not preserve the types
// of numbers.
func sameConfig(a, b map[string]any) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// obtain returns the path of the release's file among the versions.
func (h *Host) obtain(ctx context.Context, r Release, body io.Reader) (path, digest string, err error) {
	if path, ok := h.versions.has(r.Name, r.Digest, h.digests); ok {
		return path, r.Digest, nil
	}
	temp, digest, err := h.fetch(ctx, r, body)
	if err != nil {
		return "", "", err
	}
	defer os.Remove(temp) // it is linked, or of no use
	h.works.step(r.Name, StepVerifying, 0)
	path, err = h.versions.keep(r.Name, digest, temp, h.digests)
	return path, digest, err
}

// switchTo tries a stored version and makes it the file in plugin_dir.
func (h *Host) switchTo(ctx context.Context, r Release, stored string) error {
	s, fresh, err := h.plugin(r.Name)
	if err != nil {
		return err
	}
	path := s.where().Path
	c := candidate{
		file: process.File{Name: r.Name, Path: path, Stored: stored}, digest: r.Digest, version: r.Version, config: r.Config,
		place: func() error { return h.place(stored, path) },
	}
	err = s.ask(ctx, func(ctx context.Context, now *live) (*live, error) {
		next, err := s.upgrade(ctx, now, c)
		s.judge(ctx, c.digest, err)
		return next, err
	})
	if err != nil && fresh {
		h.drop(s)
	}
	return err
}

// blamelessError is a failure that says nothing about the version that was tried: its
// destination is not writable, or the request was wrong.
type blamelessError struct{ error }

// Unwrap returns the cause.
func (e *blamelessError) Unwrap() error { return e.error }

// judge records the outcome of an upgrade.
func (s *supervised) judge(ctx context.Context, digest string, err error) {
	if err == nil {
		s.set(func(st *PluginStatus) { st.Digest = digest })
		s.onProbation(digest)
		return
	}
	s.host.cfg.Logger.Error("a new version of a plugin does not work; the one before stays", "plugin", s.name, "digest", digest, "error", err)
	s.set(func(st *PluginStatus) { st.UpgradeError = err })
	if innocent := (*blamelessError)(nil); ctx.Err() != nil || errdefs.IsResourceExhausted(err) || errors.As(err, &innocent) {
		return // the version is not to blame
	}
	if err := s.host.catalog.change(ctx, s.name, func(m *memo) { m.addBad(digest, err.Error()) }); err != nil {
		s.host.cfg.Logger.Warn("that a version of a plugin is bad will be forgotten", "plugin", s.name, "error", err)
	}
}

// place puts a stored version into plugin_dir.
func (h *Host) place(stored, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return diskError(err, "make plugin_dir "+filepath.Dir(path))
	}
	if isNoExec(filepath.Dir(path)) {
		return errdefs.FailedPreconditionf("put the plugin into %s: its file system is mounted noexec, so nothing in it can be run; mount it with exec, or set another plugin_dir", filepath.Dir(path))
	}
	return place(stored, path, h.mark)
}

// returnTo restores the version before a bad one, as process and as file. now is the
// current process, which must be of that version, or nil: it is then started.
func (h *Host) returnTo(ctx context.Context, s *supervised, now *live, bad string, why error) (*live, error) {
	m := h.catalog.get(s.name)
	good := m.Running
	if good == bad {
		good = m.Previous
	}
	h.cfg.Logger.Error("a version of a plugin is taken back", "plugin", s.name, "digest", bad, "error", why)
	stored, ok := h.versions.has(s.name, good, h.digests)
	if !ok {
		return now, errdefs.FailedPreconditionf("plugin %q: there is no copy of the version before", s.name)
	}
	err := h.catalog.change(ctx, s.name, func(m *memo) {
		m.addBad(bad, why.Error())
		if m.Running == bad {
			m.Running, m.Previous = good, ""
		}
	})
	if err == nil {
		err = h.place(stored, s.where().Path)
	}
	if err == nil {
		s.note(process.Identity(s.where().Path))
	}
	s.set(func(st *PluginStatus) {
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
	m := h.catalog.get(name)
	stored, ok := h.versions.has(name, m.Previous, h.digests)
	if !ok {
		return PluginStatus{}, errdefs.FailedPreconditionf("plugin %q: no version before the present one is kept; install the one that you want", name)
	}
	end := h.works.begin(name, "rollback")
	err = h.switchTo(ctx, Release{Name: name, Digest: m.Previous, Config: m.Config}, stored)
	end(err)
	if err != nil {
		return PluginStatus{}, fmt.Errorf("roll plugin %q back: %w", name, err)
	}
	h.prune(name)
	return h.one(name)
}

// prune removes versions to which nothing can return.
func (h *Host) prune(name string) {
	m := h.catalog.get(name)
	h.versions.prune(name, m.Running, m.Previous)
}

// removeFile removes the plugin's file from plugin_dir.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError(err, "remove the plugin")
	}
	return nil
}
