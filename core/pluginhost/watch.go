// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/supervise"
)

// watchDir keeps the plugins in sync with the files in plugin_dir, until ctx ends. It
// reads the directory after notifications and also at intervals, because notifications
// can be lost or unavailable.
func (h *Host) watchDir(ctx context.Context) {
	w := &watcher{host: h, seen: map[string]sighting{}}
	events := w.listen()
	defer w.close()
	rescan := time.NewTicker(h.cfg.RescanInterval)
	defer rescan.Stop()
	settle := time.NewTimer(h.cfg.SettleTime)
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if e.Name == h.cfg.Dir && e.Has(fsnotify.Remove|fsnotify.Rename) { // no further notifications will arrive
				w.close()
				events = nil
			}
			settle.Reset(h.cfg.SettleTime) // one check after many changes
			continue
		case err := <-w.errors(): // for example an overflow; the directory must be read
			h.cfg.Logger.Debug("changes in plugin_dir were missed; it is read", "error", err)
			settle.Reset(h.cfg.SettleTime)
			continue
		case <-settle.C:
		case <-rescan.C:
			if events == nil {
				events = w.listen() // the directory may be there now
			}
		}
		if w.look(ctx, time.Now()) {
			settle.Reset(h.cfg.SettleTime)
		}
	}
}

// watcher compares plugin_dir with the plugins.
type watcher struct {
	host   *Host
	notify *fsnotify.Watcher
	seen   map[string]sighting
}

// sighting is the state of a file at a check; "" means absent.
type sighting struct {
	identity string
	since    time.Time
}

func (w *watcher) listen() <-chan fsnotify.Event {
	n, err := fsnotify.NewWatcher()
	if err == nil {
		if err = n.Add(w.host.cfg.Dir); err != nil {
			_ = n.Close() // nothing is watched
		}
	}
	if err != nil {
		w.host.cfg.Logger.Debug("plugin_dir is not watched, only read at intervals", "interval", w.host.cfg.RescanInterval, "error", err)
		return nil
	}
	w.notify = n
	return n.Events
}

// errors returns the channel on which the system reports that it has lost notifications.
func (w *watcher) errors() <-chan error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Errors
}

func (w *watcher) close() {
	if w.notify != nil {
		_ = w.notify.Close() // nobody reads it any more
		w.notify = nil
	}
}

// look applies changes that have settled. It reports whether there are changes that
// have not settled yet.
func (w *watcher) look(ctx context.Context, now time.Time) (unsettled bool) {
	h := w.host
	files, err := h.dir.Discover()
	if err != nil {
		h.cfg.Logger.Warn("plugin_dir cannot be read; plugins stay as they are", "error", err)
		return false
	}
	h.notice()
	there := map[string]process.File{}
	for _, f := range files {
		there[f.Name] = f
	}
	names := map[string]bool{}
	for name := range there {
		names[name] = true
	}
	h.mu.Lock()
	for name := range h.plugins {
		names[name] = true
	}
	h.mu.Unlock()
	for name := range w.seen {
		if !names[name] {
			delete(w.seen, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) { // sorted, so that the first of several new plugins is started first
		f, isThere := there[name]
		id := ""
		if isThere {
			id = process.Identity(f.Path)
		}
		if last, ok := w.seen[name]; !ok || last.identity != id {
			w.seen[name] = sighting{identity: id, since: now}
		}
		settled := now.Sub(w.seen[name].since) >= h.cfg.SettleTime
		if h.follows(name, f, isThere) {
			continue
		}
		if !settled {
			unsettled = true
			continue
		}
		h.follow(ctx, name)
	}
	return unsettled
}

// follows reports whether a plugin is in sync with its file.
func (h *Host) follows(name string, f process.File, isThere bool) bool {
	s, err := h.known(name)
	if err != nil {
		return !isThere
	}
	switch s.Mode() {
	case supervise.Disabled:
		return isThere && s.Status().PID == 0
	case supervise.Gone:
		return false // until it is forgotten, or its file is back
	}
	return isThere && s.Tried(process.Identity(f.Path))
}

// follow brings a plugin in sync with its file, unless another operation on it is in
// progress: the next check then does.
func (h *Host) follow(ctx context.Context, name string) {
	unlock, ok := h.tryLock(name)
	if !ok {
		return
	}
	defer unlock()
	f, isThere, err := h.dir.Find(name)
	if err != nil || h.follows(name, f, isThere) {
		return
	}
	s, unknown := h.known(name)
	switch {
	case unknown != nil:
		h.appeared(f)
	case !isThere:
		err = h.vanished(ctx, s)
	case s.Mode() == supervise.Disabled:
		err = s.Settle(ctx)
	default:
		if err = s.Replace(ctx, f); err == nil {
			h.renewInstances(ctx, name)
		}
	}
	if err != nil && ctx.Err() == nil {
		h.cfg.Logger.Error("a change in plugin_dir could not be followed", "plugin", name, "error", err)
	}
}

// appeared starts a new plugin.
func (h *Host) appeared(f process.File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.plugins[f.Name] != nil {
		return
	}
	h.cfg.Logger.Info("a plugin was put into plugin_dir", "plugin", f.Name)
	h.add(f, h.bootMode(f), func() {})
}

// vanished handles a plugin without a file: it continues while it has tasks.
func (h *Host) vanished(ctx context.Context, s *supervise.Plugin) error {
	if over, err := s.Vanish(ctx); !over || err != nil {
		return err
	}
	h.dropInstances(ctx, s.Name())
	h.drop(s)
	h.cfg.Logger.Info("a plugin was taken out of plugin_dir and has no tasks any more", "plugin", s.Name())
	h.versions.Prune(s.Name())
	return h.catalog.Forget(ctx, s.Name())
}
