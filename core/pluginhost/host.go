// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package pluginhost decides which plugins of a node run and at which version: it
// discovers, supervises, restarts, installs and upgrades them, and offers what they
// serve through interfaces of the core. The process of a plugin is package process,
// its files are package install, and what it serves is package kinds. It does not own
// tasks or their durable handles (core/agent does). core/agent imports it.
package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/core/pluginhost/logpipe"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Config configures a Host. Zero durations and counts mean the defaults.
type Config struct {
	// Dir is where plugin executables lie. A directory that is absent has none.
	Dir string
	// StateDir is the host's own directory, for sockets; it is created with mode 0700.
	StateDir string
	// Store may be nil: plugins are then not reattached after a restart.
	Store  process.Store
	Logger hclog.Logger
	// DriverConfig contains the agent's plugin "NAME" { config { } } blocks, by the
	// name of a driver, a device plugin or a file.
	DriverConfig map[string]map[string]any
	// Env is passed to plugins in addition to the variables that all get (see
	// baseEnv), as "NAME=value".
	Env []string
	// LogCollector is the command that reads the logs of plugins built for Nomad; the
	// socket's directory is appended as its last argument. Without it such plugins
	// cannot start tasks with logs.
	LogCollector []string
	// Topology returns the topology of the machine's cores for plugins built for
	// Nomad; it may be nil, and may block until the topology is known.
	Topology func() *model.Topology
	// Args are the command lines of plugins' processes, by the name of the file.
	Args map[string][]string
	// StatsInterval is the interval at which collectors measure while there is a
	// consumer; default 1 s.
	StatsInterval time.Duration
	// ProcessLimits limit each plugin's processes, by the name of its file; "*"
	// applies to all others. Pids 0 means DefaultPids, -1 no limit.
	ProcessLimits map[string]confine.Limits
	// Disabled are plugin names (their file names) that are not launched.
	Disabled []string

	StartTimeout time.Duration // for launch and handshake; default 10 s
	PingInterval time.Duration // between pings; default 10 s
	PingTimeout  time.Duration // for the answer; default 5 s
	PingFailures int           // consecutive failures until a plugin counts as hung; default 3
	BackoffMin   time.Duration // before the first restart; default 250 ms
	BackoffMax   time.Duration // default 1 min
	// A plugin that fails CrashLoopFailures times (default 5) within CrashLoopWindow
	// (default 5 min) is started only every BackoffMax, until a process has run for
	// Steady (default 1 min), which also resets the backoff.
	CrashLoopFailures int
	CrashLoopWindow   time.Duration
	Steady            time.Duration
	// AbsentInterval is the interval of checks on a machine that lacks what a plugin
	// needs; default 1 min.
	AbsentInterval time.Duration
	Limits         driver.Limits // of driver calls; default driver.DefaultLimits

	// RescanInterval is the interval at which Dir is read even without a notification,
	// and SettleTime how long a file must be unchanged to count as complete.
	RescanInterval time.Duration // default 10 s
	SettleTime     time.Duration // default 1 s
	// UpgradeTimeout limits the time for a new version to become ready, and
	// RetireTimeout how long the old one continues for calls in progress.
	UpgradeTimeout time.Duration // default 1 min
	RetireTimeout  time.Duration // default 5 min
	// A version that crashes ProbationCrashes times within Probation after its
	// takeover is rolled back.
	Probation        time.Duration // default 1 min
	ProbationCrashes int           // default 3
	// FetchTimeout and MaxSize limit what Install fetches.
	FetchTimeout time.Duration // default 15 min
	MaxSize      int64         // default 1 GiB
}

func (c *Config) setDefaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.StartTimeout, 10*time.Second)
	set(&c.StatsInterval, time.Second)
	set(&c.PingInterval, 10*time.Second)
	set(&c.PingTimeout, 5*time.Second)
	set(&c.BackoffMin, 250*time.Millisecond)
	set(&c.BackoffMax, time.Minute)
	set(&c.CrashLoopWindow, 5*time.Minute)
	set(&c.Steady, time.Minute)
	set(&c.AbsentInterval, time.Minute)
	set(&c.RescanInterval, 10*time.Second)
	set(&c.SettleTime, time.Second)
	set(&c.UpgradeTimeout, time.Minute)
	set(&c.RetireTimeout, 5*time.Minute)
	set(&c.Probation, time.Minute)
	set(&c.FetchTimeout, 15*time.Minute)
	if c.ProbationCrashes == 0 {
		c.ProbationCrashes = 3
	}
	if c.MaxSize == 0 {
		c.MaxSize = 1 << 30
	}
	if c.PingFailures == 0 {
		c.PingFailures = 3
	}
	if c.CrashLoopFailures == 0 {
		c.CrashLoopFailures = 5
	}
	if c.Limits == (driver.Limits{}) {
		c.Limits = driver.DefaultLimits()
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
}

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
	// HostReading contains the samples of one collector of the machine's stats.
	HostReading = kinds.HostReading
)

// State is the state of a plugin.
type State string

// The states. A plugin that is backing off or in a crash loop has failed and will be
// started again. An undetected plugin found nothing to serve; it is not kept running,
// but checked at intervals. A resting plugin has something to serve, but nobody uses
// it. A plugin that is not answering has a running process, but calls to one of its
// drivers fail.
const (
	StateStarting     State = "starting"
	StateRunning      State = "running"
	StateNotAnswering State = "not answering"
	StateBackingOff   State = "backing off"
	StateCrashLoop    State = "crash loop"
	StateUndetected   State = "undetected"
	StateResting      State = "resting"
	StateStopped      State = "stopped"
	StateDisabled     State = "disabled" // by an operator; it may still run for its tasks
	StateRemoved      State = "removed"  // its file was removed; it may still run for its tasks
	StateUnusable     State = "unusable" // a file that looks like a plugin but cannot be run; see Listed
	StateInstalling   State = "installing"
	StateNotInstalled State = "not installed" // the first install failed
)

// PluginStatus is the status of one plugin file.
type PluginStatus struct {
	Name       string
	Version    string
	Path       string
	Digest     string // "sha256:HEX" of the file; "" until it was read
	PID        int
	State      State
	Restarts   int
	Reattached bool
	Drivers    []string
	Devices    []string // names of device plugins
	Collectors []string
	// LastError is why the plugin does not work; nil while it does.
	LastError error
	// LastFailure is why the last failed process ended or could not be used, and
	// FailedPID is its pid, 0 if it did not start.
	LastFailure error
	FailedPID   int
	// CrashLoop means that it failed often in a short time and has not run steadily
	// since.
	CrashLoop bool
	// UpgradeError is why the last version that was tried is not running; it stays
	// until a version takes over.
	UpgradeError error
	// Previous is the digest of the version to which a rollback returns.
	Previous string
	Tasks    int          // that the host knows of
	Bad      []BadVersion // not tried again automatically
	Work     *Work        // current or last operation on it; nil if there was none
}

// Host runs the plugins of one agent.
type Host struct {
	cfg      Config
	launcher *process.Launcher
	kinds    *kinds.Set
	changed  *signal // of any plugin's status
	catalog  *install.Catalog
	dir      install.Dir
	versions *install.Versions
	locks    *locks
	unusable unusable
	works    *install.Works

	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	plugins map[string]*supervised
	keep    bool // end without ending the processes
	closed  bool
	run     context.Context // of what Start began
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
	launcher, err := process.NewLauncher(process.Config{
		StateDir: stateDir, Store: cfg.Store, Logger: cfg.Logger, Env: cfg.Env, Args: cfg.Args,
		Limits: cfg.ProcessLimits, StartTimeout: cfg.StartTimeout,
	})
	if err != nil {
		return nil, err
	}
	h := &Host{
		cfg: cfg, launcher: launcher, changed: newSignal(), plugins: map[string]*supervised{},
	}
	h.catalog, h.locks, h.works = install.NewCatalog(cfg.Store), newLocks(), install.NewWorks()
	h.dir = install.Dir{Path: cfg.Dir, Disabled: cfg.Disabled, Mark: process.Tag(stateDir) + ".new"}
	h.versions = install.NewVersions(install.VersionsConfig{
		Dir: filepath.Join(cfg.StateDir, "versions"), FetchTimeout: cfg.FetchTimeout, MaxSize: cfg.MaxSize, Works: h.works,
	})
	logs := &fifos{client: logpipe.NewClient(launcher.SocketDir(), logCommand(cfg.LogCollector, launcher.SocketDir()))}
	h.kinds = kinds.New(kinds.Config{
		Logger: cfg.Logger, Limits: cfg.Limits, Nomad: driver.NomadHost{Logs: logs, Topology: cfg.Topology}, StatsInterval: cfg.StatsInterval,
		Demand: h.demand, Answering: h.changed.raise, Recovered: h.works.Recovered, Mark: launcher.Mark(),
	})
	return h, nil
}

// demand starts a plugin at once that is not kept running.
func (h *Host) demand(plugin string) {
	h.mu.Lock()
	s := h.plugins[plugin]
	h.mu.Unlock()
	if s != nil {
		s.wake.ring()
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
		return nil
	case <-ctx.Done():
		return fmt.Errorf("start the plugins: %w", ctx.Err())
	}
}

// sweep removes what a killed agent left of versions.
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
			h.cfg.Logger.Warn("args are for the plugin whose file has the name of their block, and there is none", "plugin", name, "plugin_dir", h.cfg.Dir)
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

// pings says when a process counts as hung.
func (h *Host) pings() process.Pings {
	return process.Pings{Interval: h.cfg.PingInterval, Timeout: h.cfg.PingTimeout, Failures: h.cfg.PingFailures}
}

func (h *Host) keeping() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keep
}

// Status lists all plugins by name.
func (h *Host) Status() []PluginStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]PluginStatus, 0, len(h.plugins))
	for _, s := range h.plugins {
		out = append(out, h.complete(s.snapshot()))
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

// ReserveDevices returns how a task accesses devices of one group. NotFound: no plugin
// has the group now. Unavailable: its plugin is being restarted.
func (h *Host) ReserveDevices(ctx context.Context, vendor, typ, name string, ids []string) (*device.Reservation, error) {
	return h.kinds.Devices.Reserve(ctx, vendor, typ, name, ids)
}

// DeviceStats requests samples of the device plugins and returns them, ordered by
// group, like HostStats. Devices of a plugin that is away are left out.
func (h *Host) DeviceStats(ctx context.Context) []device.GroupStats {
	return h.kinds.Devices.Stats(ctx)
}

// HostStats requests samples of the collectors and returns them by collector; it waits
// briefly for missing ones. Collectors measure only for a while after a call.
func (h *Host) HostStats(ctx context.Context) []HostReading { return h.kinds.Collectors.Readings(ctx) }

// OnRestart calls f, in a goroutine of its own, whenever a new process serves the
// driver, after its known tasks were recovered. The returned function removes f.
func (h *Host) OnRestart(driverName string, f func()) (stop func()) {
	return h.kinds.Drivers.OnRestart(driverName, f)
}
