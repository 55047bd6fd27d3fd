// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"slices"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/supervise"
	"github.com/drover-project/drover/sdk/errdefs"
)

// add makes a plugin and begins to run it; h.mu is held.
func (h *Host) add(f process.File, m supervise.Mode, firstDone func()) *supervise.Plugin {
	if h.waits(f) && m == supervise.On {
		s := supervise.StartResting(h.run, h.shared, f)
		h.plugins[f.Name] = s
		if firstDone != nil {
			firstDone()
		}
		return s
	}
	if firstDone != nil {
		h.kinds.Expect(f.Name)
		told := firstDone
		firstDone = func() { h.kinds.Settled(f.Name); told() }
	}
	s := supervise.Start(h.run, h.shared, f, m, firstDone)
	h.plugins[f.Name] = s
	return s
}

// waits reports whether a plugin is not started until it is asked for.
func (h *Host) waits(f process.File) bool {
	return slices.Contains(h.cfg.OnDemand, f.Name) && h.cfg.DriverConfig[f.Name] == nil && h.catalog.Get(f.Name).Config == nil
}

// owner returns the plugin that served a name last, if it may serve it again.
func (h *Host) owner(id string) string {
	name := h.catalog.OwnerOf(id)
	h.mu.Lock()
	s := h.plugins[name]
	h.mu.Unlock()
	if s == nil || s.Mode() == supervise.Disabled {
		return ""
	}
	return name
}

// bootMode returns the mode that the previous agent stored for a file.
func (h *Host) bootMode(f process.File) supervise.Mode {
	switch {
	case f.Stored != "":
		return supervise.Gone
	case h.catalog.Get(f.Name).Disabled:
		return supervise.Disabled
	}
	return supervise.On
}

// withKept adds the plugins whose files were removed but which still had tasks when
// the previous agent ended.
func (h *Host) withKept(files []process.File) []process.File {
	for _, name := range h.catalog.Names() {
		m := h.catalog.Get(name)
		if !m.Kept || slices.ContainsFunc(files, func(f process.File) bool { return f.Name == name }) {
			continue
		}
		if stored, ok := h.versions.Has(name, m.Running); ok {
			files = append(files, process.File{Name: name, Path: h.dir.PathOf(name), Stored: stored})
		}
	}
	return files
}

// endLeftovers ends processes that a killed agent left and that no plugin of this host
// takes over.
func (h *Host) endLeftovers(ctx context.Context, files []process.File) error {
	var current []string
	for _, f := range files {
		if !h.waits(f) {
			current = append(current, f.Name)
		}
	}
	return h.launcher.EndLeftovers(ctx, current, h.catalog.Names())
}

// plugin returns the plugin with a name, which it creates if necessary.
func (h *Host) plugin(name string) (s *supervise.Plugin, fresh bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run == nil || h.closed {
		return nil, false, errdefs.Unavailablef("the plugin host does not run")
	}
	if s := h.plugins[name]; s != nil {
		return s, false, nil
	}
	return h.add(process.File{Name: name, Path: h.dir.PathOf(name)}, supervise.On, nil), true, nil
}

// known returns a plugin that there is.
func (h *Host) known(name string) (*supervise.Plugin, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.plugins[name]; s != nil && !h.closed {
		return s, nil
	}
	return nil, errdefs.NotFoundf("no plugin %q on this node; `drover plugin list` shows those that there are", name)
}

func (h *Host) one(name string) (PluginStatus, error) {
	s, err := h.known(name)
	if err != nil {
		return PluginStatus{}, err
	}
	return s.Status(), nil
}

// Plugin returns one plugin.
func (h *Host) Plugin(name string) (PluginStatus, error) { return h.one(name) }

// drop ends a plugin's goroutine and forgets it. Its process is ended, too.
func (h *Host) drop(s *supervise.Plugin) {
	s.Stop()
	h.kinds.Release(s.Name(), nil)
	h.launcher.Release(s.Name())
	h.mu.Lock()
	if h.plugins[s.Name()] == s {
		delete(h.plugins, s.Name())
	}
	h.mu.Unlock()
	h.changed.raise()
}

// Remove ends a plugin and removes its file. FailedPrecondition: it has tasks, and
// force is not set. With force its tasks keep running without supervision, until a
// plugin with their driver is installed again.
func (h *Host) Remove(ctx context.Context, name string, force bool) error {
	unlock, err := h.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := h.known(name)
	if err != nil && h.works.Get(name) != nil {
		h.works.Forget(name) // nothing else is left of a failed first install
		return nil
	}
	if err != nil {
		return err
	}
	if n := h.kinds.Drivers.Tasks(name, nil); n > 0 && !force {
		return errdefs.FailedPreconditionf("plugin %q has %d tasks: stop them first, disable it, which lets them end by themselves, or remove it by force, which leaves them unattended", name, n)
	}
	if err := h.dir.Remove(s.File().Path); err != nil {
		return err
	}
	if err := h.catalog.Forget(ctx, name); err != nil {
		return err
	}
	h.dropInstances(ctx, name)
	h.drop(s)
	h.versions.Prune(name)
	h.works.Forget(name)
	h.cfg.Logger.Info("plugin removed", "plugin", name)
	return nil
}

// Disable makes a plugin accept no new tasks. Running tasks continue and stay
// reachable; after the last one the process is ended. It stays disabled across
// restarts of the agent.
func (h *Host) Disable(ctx context.Context, name string) error {
	return h.alone(ctx, name, func(s *supervise.Plugin) error {
		if err := s.Withdraw(ctx, supervise.Disabled); err != nil {
			return err
		}
		h.refuseInstances(name, errdefs.FailedPreconditionf("plugin %q is disabled and takes no new volumes", name))
		return nil
	})
}

// Enable reverses Disable.
func (h *Host) Enable(ctx context.Context, name string) error {
	return h.alone(ctx, name, func(s *supervise.Plugin) error {
		if s.Mode() == supervise.Gone {
			return errdefs.FailedPreconditionf("plugin %q: its file is gone from %s; install it", name, h.cfg.Dir)
		}
		if err := s.Enable(ctx); err != nil {
			return err
		}
		h.refuseInstances(name, nil)
		return nil
	})
}

// Reload starts a new process of a plugin beside the running one, which stays if the
// new one does not become ready. A plugin that waits for its next start is started at
// once, and bad versions may be tried again.
func (h *Host) Reload(ctx context.Context, name string) error {
	return h.alone(ctx, name, func(s *supervise.Plugin) error {
		if err := s.Reload(ctx); err != nil {
			return err
		}
		h.renewInstances(ctx, name)
		return nil
	})
}

// alone calls do for a known plugin while no other operation on the plugin runs.
func (h *Host) alone(ctx context.Context, name string, do func(*supervise.Plugin) error) error {
	unlock, err := h.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := h.known(name)
	if err != nil {
		return err
	}
	return do(s)
}
