// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/supervise"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/sdk/errdefs"
)

// instanceMark stands in the name of an instance between those of its plugin and of what it
// is for. No file of plugin_dir that serves something has it.
const instanceMark = "@"

// VolumeInstance is a process of a storage plugin for one storage driver, which comes and goes
// while the agent runs.
type VolumeInstance struct {
	// Name is the name of the storage plugin that it serves, such as the id of a CSI driver.
	Name string
	// Plugin is the plugin in plugin_dir, such as "csi".
	Plugin string
	// Config is the config of the storage plugin, such as the endpoint of the driver.
	Config map[string]any
}

var instanceNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Volumes returns the newest fingerprint of every storage plugin, by name, and a channel that
// is closed when they have changed, as Fingerprints does. A plugin whose process was ended
// because nobody needed it keeps its last fingerprint.
func (h *Host) Volumes() ([]VolumeFingerprint, <-chan struct{}) {
	return h.kinds.Volumes.Fingerprints()
}

// WithVolume calls do with the storage plugin of a name, whose process is started if it has
// none because nobody needed it. NotFound: no plugin or instance serves the name. Unavailable:
// its process is being restarted. Other errors are those of do.
func (h *Host) WithVolume(ctx context.Context, name string, do func(context.Context, volume.Backend) error) error {
	if err := h.kinds.Volumes.With(ctx, name, do); err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("storage plugin %q: %w", name, err))
	}
	return nil
}

// RunVolume runs an instance until EndVolume. It returns after the first try to start it; the
// instance's fingerprint says whether it works. If the instance runs with another config, it is
// replaced: calls in progress then fail as unavailable, and their callers must repeat them.
// NotFound: there is no such plugin.
func (h *Host) RunVolume(ctx context.Context, i VolumeInstance) error {
	if !instanceNames.MatchString(i.Name) {
		return errdefs.InvalidArgumentf("%.80q cannot be the name of a storage plugin: it has 1 to 64 characters, which are letters, digits, dots, dashes and underscores", i.Name)
	}
	name := i.Plugin + instanceMark + i.Name
	unlock, err := h.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := h.known(i.Plugin)
	if err != nil || s.Mode() != supervise.On {
		return errdefs.NotFoundf("storage driver %q needs the plugin %q, which is not in %s or is disabled; put it there, or enable it", i.Name, i.Plugin, h.cfg.Dir)
	}
	if old := h.instance(name); old != nil {
		if reflect.DeepEqual(old.File().Config, i.Config) {
			return nil
		}
		h.dropInstance(ctx, old)
	}
	f := process.File{Name: name, Path: s.File().Path, Of: i.Plugin, Serves: i.Name, Config: i.Config}
	tried := make(chan struct{})
	h.mu.Lock()
	if h.run == nil || h.closed {
		h.mu.Unlock()
		return errdefs.Unavailablef("the plugin host does not run")
	}
	h.instances[name] = supervise.Start(h.run, h.shared, f, supervise.On, func() {
		select {
		case <-tried:
		default:
			close(tried)
		}
	})
	h.mu.Unlock()
	select {
	case <-tried:
		return nil
	case <-ctx.Done():
		return errdefs.DeadlineExceededf("storage plugin %q is still being started: %w", i.Name, ctx.Err())
	}
}

// EndVolume ends an instance. Volumes stay where they are. It is no error if there is none.
func (h *Host) EndVolume(ctx context.Context, plugin, name string) error {
	name = plugin + instanceMark + name
	unlock, err := h.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if s := h.instance(name); s != nil {
		h.dropInstance(ctx, s)
	}
	return nil
}

func (h *Host) instance(name string) *supervise.Plugin {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.instances[name]
}

// instancesOf returns the instances of a plugin.
func (h *Host) instancesOf(plugin string) (out []*supervise.Plugin) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.instances {
		if s.File().Of == plugin {
			out = append(out, s)
		}
	}
	return out
}

func (h *Host) dropInstance(ctx context.Context, s *supervise.Plugin) {
	s.Stop()
	h.kinds.Release(s.Name(), nil)
	h.launcher.Release(s.Name())
	h.mu.Lock()
	delete(h.instances, s.Name())
	h.mu.Unlock()
	if err := h.catalog.Forget(ctx, s.Name()); err != nil {
		h.cfg.Logger.Warn("that an instance of a plugin is gone will be forgotten", "plugin", s.Name(), "error", err)
	}
	h.changed.raise()
}

// dropInstances ends all instances of a plugin that is removed.
func (h *Host) dropInstances(ctx context.Context, plugin string) {
	for _, s := range h.instancesOf(plugin) {
		h.dropInstance(ctx, s)
	}
}

// renewInstances replaces the instances of a plugin by ones of its present version.
func (h *Host) renewInstances(ctx context.Context, plugin string) {
	for _, s := range h.instancesOf(plugin) {
		if err := s.Reload(ctx); err != nil && ctx.Err() == nil {
			h.cfg.Logger.Error("an instance of a plugin stays with the version before", "plugin", s.Name(), "error", err)
		}
	}
}

// refuseInstances makes the instances of a plugin take no new volumes; nil allows them again.
func (h *Host) refuseInstances(plugin string, reason error) {
	for _, s := range h.instancesOf(plugin) {
		h.kinds.Refuse(s.Name(), reason)
	}
}

// forgetInstances forgets the instances of an agent before, whose processes were ended.
func (h *Host) forgetInstances(ctx context.Context) error {
	for _, name := range h.catalog.Names() {
		if strings.Contains(name, instanceMark) {
			if err := h.catalog.Forget(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}
