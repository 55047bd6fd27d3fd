// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package pluginhost is the set of a node's plugins: it follows plugin_dir, carries out
// what operators and the cluster ask for (install, remove, disable, reload), and offers
// what plugins serve through interfaces of the core. It composes four packages, of
// which each imports only those before it: process (the process of one plugin), install
// (its files), kinds (what it serves) and supervise (which keeps it running). It does
// not own tasks or their durable handles (core/agent does). core/agent imports it.
package pluginhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"sync"

	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/core/pluginhost/logpipe"
	"github.com/drover-project/drover/core/pluginhost/network"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/supervise"
	"github.com/drover-project/drover/sdk/errdefs"
)

// What plugins serve is described by package kinds, and their files by package install.
type (
	// Release is one version of a plugin to run.
	Release = install.Release
	// BadVersion is a version that failed and is not tried again automatically.
	BadVersion = install.BadVersion
	// Work is the current or last operation on a plugin.
	Work = install.Work
	// DriverFingerprint is the agent's report to servers about one driver.
	DriverFingerprint = kinds.DriverFingerprint
	// DeviceFingerprint is what one device plugin found.
	DeviceFingerprint = kinds.DeviceFingerprint
	// NetworkFingerprint is what one network plugin offers.
	NetworkFingerprint = kinds.NetworkFingerprint
	// RegistryFingerprint is what one registry of services reaches.
	RegistryFingerprint = kinds.RegistryFingerprint
	// VolumeFingerprint is what one storage plugin can do.
	VolumeFingerprint = kinds.VolumeFingerprint
	// Names are what a plugin serves, by kind.
	Names = kinds.Names
	// HostReading contains the samples of one collector of the machine's stats.
	HostReading = kinds.HostReading
)

// What is known of one plugin is described by package supervise.
type (
	// PluginStatus is the status of one plugin file.
	PluginStatus = supervise.Status
	// State is the state of a plugin.
	State = supervise.State
)

// The states; package supervise says what they mean. The last three are states of Listed
// only.
const (
	StateStarting     = supervise.StateStarting
	StateRunning      = supervise.StateRunning
	StateNotAnswering = supervise.StateNotAnswering
	StateBackingOff   = supervise.StateBackingOff
	StateCrashLoop    = supervise.StateCrashLoop
	StateUndetected   = supervise.StateUndetected
	StateResting      = supervise.StateResting
	StateStopped      = supervise.StateStopped
	StateDisabled     = supervise.StateDisabled
	StateRemoved      = supervise.StateRemoved
	StateUnusable     = supervise.StateUnusable
	StateInstalling   = supervise.StateInstalling
	StateNotInstalled = supervise.StateNotInstalled
)

// Host runs the plugins of one agent.
type Host struct {
	cfg      Config
	launcher *process.Launcher
	kinds    *kinds.Set
	changed  *signal // raised when the status of any plugin changes
	catalog  *install.Catalog
	dir      install.Dir
	versions *install.Versions
	locks    *locks
	unusable unusable
	works    *install.Works
	shared   *supervise.Shared // what all plugins share

	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	plugins map[string]*supervise.Plugin
	// instances are the instances of storage plugins, which are not files of plugin_dir.
	instances map[string]*supervise.Plugin
	keep      bool // end without ending the processes
	closed    bool
	run       context.Context // context of everything that Start began
}

// New makes a host. Nothing runs until Start.
func New(cfg Config) (*Host, error) {
	cfg.setDefaults()
	if cfg.Dir == "" || cfg.StateDir == "" {
		return nil, errdefs.InvalidArgumentf("plugin host: Dir and StateDir must be set")
	}
	stateDir, err := filepath.Abs(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("plugin host: %w", err)
	}
	cfg.Host.Features = kinds.Features()
	launcher, err := process.NewLauncher(process.Config{
		StateDir: stateDir, Store: cfg.Store, Logger: cfg.Logger, Env: cfg.Env, Args: cfg.Args, Host: cfg.Host,
		Limits: cfg.ProcessLimits, StartTimeout: cfg.StartTimeout, Confine: cfg.Confine, Access: cfg.Access, Hidden: cfg.Hidden, Tied: cfg.Tied,
	})
	if err != nil {
		return nil, err
	}
	h := &Host{
		cfg: cfg, launcher: launcher, changed: newSignal(), plugins: map[string]*supervise.Plugin{}, instances: map[string]*supervise.Plugin{},
	}
	h.catalog, h.locks, h.works = install.NewCatalog(cfg.Store), newLocks(), install.NewWorks()
	h.dir = install.Dir{Path: cfg.Dir, Disabled: cfg.Disabled, Mark: process.Tag(stateDir) + ".new"}
	h.versions = install.NewVersions(install.VersionsConfig{
		Dir: filepath.Join(cfg.StateDir, "versions"), FetchTimeout: cfg.FetchTimeout, MaxSize: cfg.MaxSize, Works: h.works,
	})
	logs := &fifos{client: logpipe.NewClient(launcher.SocketDir(), logCommand(cfg.LogCollector, launcher.SocketDir()))}
	h.kinds = kinds.New(kinds.Config{
		Logger: cfg.Logger, Limits: cfg.Limits, Nomad: driver.NomadHost{Logs: logs, Roots: cfg.Roots, Topology: cfg.Topology}, StatsInterval: cfg.StatsInterval, Tasks: cfg.Tasks,
		Demand: h.demand, Answering: h.changed.raise, Recovered: h.works.Recovered, Owner: h.owner, Mark: launcher.Mark(), Started: launcher.FreeTasks,
	})
	h.shared = &supervise.Shared{
		Logger: cfg.Logger, Launcher: h.launcher, Kinds: h.kinds, Catalog: h.catalog, Dir: h.dir, Versions: h.versions, Works: h.works,
		Blocks: cfg.DriverConfig, Timing: cfg.Timing, Go: h.done.Go, Changed: h.changed.raise, Keep: h.keeping,
	}
	return h, nil
}

// demand starts a plugin that runs only on demand.
func (h *Host) demand(plugin string) {
	h.mu.Lock()
	s := cmp.Or(h.plugins[plugin], h.instances[plugin])
	h.mu.Unlock()
	if s != nil {
		s.Demand()
	}
}

// Start discovers the plugins in the directory and returns once each has either
// started or failed once (it is then retried in the background). Failures are in
// Status, not in the error. The processes outlive ctx; Close ends the host.
func (h *Host) Start(ctx context.Context) error {
	files, err := h.dir.Discover()
	if err != nil {
		return err
	}
	if err := h.catalog.Load(ctx); err != nil {
		return err
	}
	files = h.withKept(files)
	h.warnOfArgs(files)
	if err := h.endLeftovers(ctx, files); err != nil {
		return err
	}
	if err := h.forgetInstances(ctx); err != nil {
		return err
	}
	h.sweep()
	h.notice()
	h.mu.Lock()
	if h.cancel != nil || h.closed {
		h.mu.Unlock()
		return errdefs.FailedPreconditionf("plugin host: it was started or closed before; make a new one")
	}
	h.run, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	var first sync.WaitGroup
	for _, f := range files {
		first.Add(1)
		h.add(f, h.bootMode(f), sync.OnceFunc(first.Done))
	}
	h.done.Go(func() { h.watchDir(h.run) })
	h.mu.Unlock()

	started := make(chan struct{})
	go func() { first.Wait(); close(started) }()
	select {
	case <-started:
		h.warnOfBlocks(files)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("start the plugins: %w", ctx.Err())
	}
}

// sweep removes files of versions that a killed agent has left.
func (h *Host) sweep() {
	keep := map[string][]string{}
	for _, name := range h.catalog.Names() {
		m := h.catalog.Get(name)
		keep[name] = []string{m.Running, m.Previous}
	}
	h.versions.Sweep(keep)
}

// warnOfArgs warns of arguments for plugins that do not exist.
func (h *Host) warnOfArgs(files []process.File) {
	for name := range h.cfg.Args {
		if !slices.ContainsFunc(files, func(f process.File) bool { return f.Name == name }) {
			h.cfg.Logger.Warn("args are for the plugin whose file has the name of the block, and there is no such plugin", "plugin", name, "plugin_dir", h.cfg.Dir)
		}
	}
}

// warnOfBlocks warns of blocks of the agent's configuration for plugins, drivers and devices
// that do not exist, and of a directory without plugins. While a plugin fails, nobody knows
// what it would serve.
func (h *Host) warnOfBlocks(files []process.File) {
	if len(files) == 0 {
		h.cfg.Logger.Warn("there is no plugin, so this node has no drivers and runs nothing", "plugin_dir", h.cfg.Dir)
	}
	var known []string
	for _, f := range files {
		known = append(known, f.Name)
	}
	for _, s := range h.Status() {
		names := s.All()
		if len(names) == 0 && s.LastError != nil {
			return
		}
		known = append(known, names...)
	}
	for _, name := range slices.Sorted(maps.Keys(h.cfg.DriverConfig)) {
		if !slices.Contains(known, name) {
			h.cfg.Logger.Warn("a plugin block has no effect: no plugin, driver or device has its name", "block", name, "known", known)
		}
	}
}

// Close ends the host and its plugin processes. Tasks keep running, because no task
// may depend on its plugin's process. With keepPlugins the processes are left to the
// next host with the same Store and StateDir, which then need not start them.
func (h *Host) Close(keepPlugins bool) {
	h.mu.Lock()
	h.keep, h.closed = keepPlugins, true
	cancel := h.cancel
	h.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	h.done.Wait()
	h.kinds.Close()
	if !keepPlugins {
		for _, p := range h.Status() {
			h.launcher.Release(p.Name)
		}
	}
}

func (h *Host) keeping() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keep
}

// Status lists all plugins and their instances by name.
func (h *Host) Status() []PluginStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]PluginStatus, 0, len(h.plugins))
	for _, s := range h.plugins {
		out = append(out, s.Status())
	}
	for _, s := range h.instances {
		out = append(out, s.Status())
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Plugins returns the result of Status and a channel that is closed when it has
// changed, like Fingerprints.
func (h *Host) Plugins() ([]PluginStatus, <-chan struct{}) {
	changed := h.changed.changed()
	return h.Status(), changed
}

// Driver returns the driver with a name. It stays usable across restarts of its
// plugin. NotFound: no plugin has served it so far; the error lists failures.
func (h *Host) Driver(name string) (driver.Driver, error) {
	d := h.kinds.Drivers.Get(name)
	if d != nil {
		return d, nil
	}
	var failed error
	for _, s := range h.Status() {
		if s.LastError != nil {
			failed = errors.Join(failed, s.LastError)
		}
	}
	if failed != nil {
		return nil, errdefs.NotFoundf("driver %q: no running plugin in %s serves it, and some failed: %w", name, h.cfg.Dir, failed)
	}
	return nil, errdefs.NotFoundf("driver %q: no plugin in %s serves it; put its plugin there, or install it with `drover plugin install`", name, h.cfg.Dir)
}

// Fingerprints returns the newest fingerprint of every driver, by name, and a channel
// that is closed when they have changed. It never blocks, and no change is lost:
//
//	for {
//		prints, changed := host.Fingerprints()
//		... report prints ...
//		<-changed
//	}
func (h *Host) Fingerprints() ([]DriverFingerprint, <-chan struct{}) {
	return h.kinds.Drivers.Fingerprints()
}

// Devices returns the newest fingerprint of every device plugin, by name, and a
// channel that is closed when they have changed, as Fingerprints does.
func (h *Host) Devices() ([]DeviceFingerprint, <-chan struct{}) {
	return h.kinds.Devices.Fingerprints()
}

// ReserveDevices returns how a task accesses devices of one group. config is the config
// block of the job's device block. NotFound: no plugin has the group now. Unavailable: its
// plugin is being restarted. InvalidArgument: the plugin does not take config.
func (h *Host) ReserveDevices(ctx context.Context, holder device.Holder, s device.Set, config map[string]any) (*device.Reservation, error) {
	return h.kinds.Devices.Reserve(ctx, holder, s, config)
}

// ReleaseDevices says that a task no longer uses devices of one group, if their plugin
// wants to know. It fails as ReserveDevices does.
func (h *Host) ReleaseDevices(ctx context.Context, holder device.Holder, s device.Set) error {
	return h.kinds.Devices.Release(ctx, holder, s)
}

// DeviceStats requests samples of the device plugins and returns them, ordered by
// group, like HostStats. Devices of a plugin that is away are left out.
func (h *Host) DeviceStats(ctx context.Context) []device.GroupStats {
	return h.kinds.Devices.Stats(ctx)
}

// HostStats requests samples of the collectors and returns them by collector; it waits
// briefly for missing ones. Collectors measure only for a while after a call.
func (h *Host) HostStats(ctx context.Context) []HostReading { return h.kinds.Collectors.Readings(ctx) }

// Networks returns the newest fingerprint of every network plugin, by name, and a channel
// that is closed when they have changed, as Fingerprints does.
func (h *Host) Networks() ([]NetworkFingerprint, <-chan struct{}) {
	return h.kinds.Networks.Fingerprints()
}

// CreateNetwork makes the network of an alloc, or repairs it. NotFound: no plugin offers
// the network. Unavailable: its plugin is being restarted. Other errors are the plugin's.
func (h *Host) CreateNetwork(ctx context.Context, r network.Request) (*network.Attachment, error) {
	return h.kinds.Networks.Create(ctx, r)
}

// DestroyNetwork removes what is left of the network of an alloc, whichever plugin made it.
// Unavailable: a plugin that may have made it is away.
func (h *Host) DestroyNetwork(ctx context.Context, name, allocID string) error {
	return h.kinds.Networks.Destroy(ctx, name, allocID)
}

// ListNetworks returns the ids of all allocs of which a plugin has something left, by the
// name of the network plugin, and SweepNetwork has one plugin remove it.
func (h *Host) ListNetworks(ctx context.Context) (map[string][]string, error) {
	return h.kinds.Networks.List(ctx)
}

// SweepNetwork removes what one network plugin has left of an alloc.
func (h *Host) SweepNetwork(ctx context.Context, plugin, allocID string) error {
	return h.kinds.Networks.Sweep(ctx, plugin, allocID)
}

// OnRestart calls f, in a goroutine of its own, whenever a new process serves the
// driver, after its known tasks were recovered. The returned function removes f.
func (h *Host) OnRestart(driverName string, f func()) (stop func()) {
	return h.kinds.Drivers.OnRestart(driverName, f)
}
