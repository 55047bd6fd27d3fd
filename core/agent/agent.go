// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package agent composes the node side: it opens the node's state, starts the plugin
// host, fingerprints the machine, recovers the allocs that an earlier agent process
// ran, maintains the session with the servers, runs the assigned allocs, and answers
// requests about them. It owns no consensus, no state of the cluster and no HTTP. Only
// cmd/drover and tests may import it. It never imports the server side.
package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/allocs"
	"github.com/drover-project/drover/core/agent/artifact"
	"github.com/drover-project/drover/core/agent/cgroup"
	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/agent/collect"
	"github.com/drover-project/drover/core/agent/cutoff"
	"github.com/drover-project/drover/core/agent/devices"
	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/agent/hostvolumes"
	"github.com/drover-project/drover/core/agent/local"
	"github.com/drover-project/drover/core/agent/logins"
	"github.com/drover-project/drover/core/agent/quota"
	"github.com/drover-project/drover/core/agent/registrar"
	"github.com/drover-project/drover/core/agent/releases"
	"github.com/drover-project/drover/core/agent/serve"
	"github.com/drover-project/drover/core/agent/session"
	"github.com/drover-project/drover/core/agent/stats"
	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/agent/taskapi"
	"github.com/drover-project/drover/core/agent/taskroot"
	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/agent/update"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/plugin"
)

// Config configures a node.
type Config struct {
	DataDir  string // the node's own directory: state, plugins' sockets
	AllocDir string // default DataDir/alloc
	Region   string
	Logger   hclog.Logger
	Servers  rpc.Servers
	// RetryMax is the longest pause between two attempts to reach a server; 0 is 5 s.
	RetryMax time.Duration
	// Intro is the token that introduces the node to its servers; it may be "".
	Intro string

	// Node contains the operator's settings of the node: Name, Datacenter, NodeClass,
	// NodePool, Meta, HTTPAddr, HostVolumes, HostNetworks, ReservedResources.
	Node        *model.Node
	Fingerprint fingerprint.Options

	PluginDir    string
	PluginConfig map[string]map[string]any
	// PluginArgs are the command lines of plugins' processes, by the names of files.
	PluginArgs map[string][]string
	// PluginInstall lets operators install and remove plugins over the API.
	PluginInstall bool
	// PluginAccess has the operator's settings for the rights of plugins, by the name of
	// the plugin's file. Hidden are directories that restricted plugins cannot read,
	// besides the node's own.
	PluginAccess map[string]confine.Access
	Hidden       []string
	// PluginLimits limit the processes of plugins, by name; "*" applies to all others.
	PluginLimits map[string]confine.Limits
	// LogCollector is the command that reads the logs of plugins built for Nomad.
	LogCollector []string
	Plugins      Plugins // for tests: replaces the plugin host
	// Releases installs the releases of the cluster's registry of plugins; nil means
	// the plugin host.
	Releases releases.Host

	// StatsInterval is the interval at which tasks and the machine are measured while
	// there is a consumer; default 1 s. AllocMetrics measures tasks continuously.
	StatsInterval time.Duration
	AllocMetrics  bool

	GC             collect.Limits
	ParallelStarts int // tasks that start at the same time; default 32

	Artifact *artifact.Config // nil: the defaults
	Template template.Config
	// Rules are the operator's rules for tasks: which variables they inherit and as
	// which users they may run.
	Rules alloc.Rules
	// Ineligible registers a new node as ineligible, until an operator makes it eligible.
	// It has no effect on a node that the servers know.
	Ineligible bool
	// NoExec rejects operators' commands in tasks.
	NoExec bool
	// MaxKillTimeout limits the kill timeout of tasks; 0 means no limit.
	MaxKillTimeout time.Duration
	// DynamicUserMin and DynamicUserMax are the user ids that allocs get, one each, for
	// tasks that name no user; a DynamicUserMax of 0 means none.
	DynamicUserMin, DynamicUserMax int
	// SecretsInMemory mounts secrets directories in memory if the agent is able to.
	SecretsInMemory bool
	// ChrootEnv lists what tasks with a root file system that the agent builds see of the
	// machine: path on the machine = path in the task. Empty means its programs, libraries
	// and settings.
	ChrootEnv map[string]string
	// DNS configures the node's DNS server; nil means none.
	DNS *DNS
	// Advertise says in which clusters the agent registers itself, by registry and cluster.
	Advertise map[string]map[string]Advertised
	// HostVolumesDir is where dynamic host volumes are made, and HostVolumePluginDir has the
	// executables that make them: DataDir/host_volumes and DataDir/host_volume_plugins by
	// default.
	HostVolumesDir, HostVolumePluginDir string
}

// Plugins is the part of the plugin host that the agent uses.
type Plugins interface {
	alloc.Drivers
	Fingerprints() ([]pluginhost.DriverFingerprint, <-chan struct{})
	devices.Plugins
	alloc.Networks
	collect.Networks
	storage.Plugins
	registrar.Host
	logins.Host
	QueryRegistry(ctx context.Context, registryName string, q registry.Query) (*registry.Answer, error)
	Networks() ([]pluginhost.NetworkFingerprint, <-chan struct{})
	Plugins() ([]pluginhost.PluginStatus, <-chan struct{})
	HostStats(ctx context.Context) []pluginhost.HostReading
	DeviceStats(ctx context.Context) []device.GroupStats
}

// Agent is the node side of an agent process.
type Agent struct {
	cfg     Config
	store   *local.Store
	host    *pluginhost.Host // nil where Config.Plugins is set
	plugins Plugins
	facts   *fingerprint.Facts
	updates *update.Buffer
	// collector removes data of ended allocs, and tasks without an alloc.
	collector *collect.Collector
	server    *serve.Server
	allocs    *allocs.Set
	running   atomic.Pointer[allocs.Set] // allocs, for the plugin host, which starts before
	devices   *devices.Keeper
	volumes   *hostvolumes.Keeper
	storage   *storage.Keeper
	limits    error // why the file system of the allocs cannot limit them; nil if it can
	checks    *checks.Node
	registrar *registrar.Keeper
	logins    *logins.Keeper
	self
	stats *stats.Tasks
	meta  dynamicMeta
	// releases installs the plugins of the cluster's registry; nil if there is no
	// plugin host.
	releases *releases.Keeper
	schemas  schemas

	connections

	cancel context.CancelFunc
	work   sync.WaitGroup

	mu   sync.Mutex
	node *model.Node
}

// self is who the node is: see rpc.Identity.
type self struct {
	nodeID   string
	secret   string
	instance string // identifies this process
}

// connections are the node's session with its servers, and the listeners for requests of
// servers and of tasks.
type connections struct {
	session *session.Session
	cutoff  *cutoff.Watch
	http    *rpc.HTTPListener
	taskAPI *taskapi.Listener
	dns     *resolver // nil without Config.DNS
}

// New opens the node's state and starts its plugins. Start starts the node.
func New(ctx context.Context, cfg Config) (*Agent, error) {
	setDefaults(&cfg)
	for _, dir := range []string{cfg.DataDir, cfg.AllocDir} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("make the node's directory: %w", err)
		}
	}
	stateDir := filepath.Join(cfg.DataDir, "state")
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the node's directory: %w", err)
	}
	store, err := local.Open(stateDir, cfg.Logger.Named("local"))
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, store: store, plugins: cfg.Plugins, connections: connections{http: rpc.NewHTTPListener()}}
	if a.taskAPI, err = taskapi.New(); err == nil {
		err = a.open(ctx)
	}
	if err != nil {
		a.closeParts()
		return nil, err
	}
	return a, nil
}

func setDefaults(cfg *Config) {
	if cfg.AllocDir == "" {
		cfg.AllocDir = filepath.Join(cfg.DataDir, "alloc")
	}
	if cfg.Region == "" {
		cfg.Region = model.DefaultRegion
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Node == nil {
		cfg.Node = &model.Node{}
	}
	if cfg.ParallelStarts == 0 {
		cfg.ParallelStarts = 32
	}
	cfg.Fingerprint.DataDir = cfg.AllocDir
	cfg.Fingerprint.AdvertiseHTTP = cfg.Node.HTTPAddr
	cfg.Fingerprint.Reserved = cfg.Node.ReservedResources
}

// open constructs the parts in the order of their dependencies. Plugins start while
// the machine is fingerprinted.
func (a *Agent) open(ctx context.Context) error {
	var err error
	if err = a.readOwn(ctx); err != nil {
		return err
	}
	a.instance = uuid.NewString()
	a.session, err = session.New(ctx, session.Config{
		Servers: a.cfg.Servers, Store: a.store, NodeID: a.nodeID, SecretID: a.secret, Instance: a.instance, RetryMax: a.cfg.RetryMax, Intro: a.cfg.Intro, Logger: a.cfg.Logger,
	})
	if err != nil {
		return err
	}
	probed := make(chan struct{})
	started, err := a.openHost(ctx, probed)
	if err != nil {
		return err
	}
	if err := a.openReleases(ctx); err != nil {
		return err
	}
	a.facts = a.probe(ctx)
	close(probed)
	a.updates = update.New(a.session.SendUpdates, a.cfg.Logger.Named("update"))
	a.openStats()
	if err := a.openDevices(ctx); err != nil {
		return err
	}
	if err := a.openStorage(ctx); err != nil {
		return err
	}
	a.openDisks()
	a.checks = checks.New(checks.Config{Now: time.Now, Jitter: rand.Float64, Logger: a.cfg.Logger.Named("checks")})
	run := &alloc.Config{
		Checks: a.checks, Node: a.Node, Region: a.cfg.Region, Root: a.cfg.AllocDir, Drivers: a.plugins, Devices: a.devices, Networks: a.plugins, Storage: a.storage, Store: a.store, Disks: quota.Disks{},
		Publish: func(v *model.Allocation) {
			a.updates.Put(v, false)
			a.registrar.Changed()
		},
		Ended: func(string) { a.collector.Garbage(); a.storage.Look() }, Previous: func(id string) <-chan struct{} { return a.allocs.Previous(id) },
		Starts: make(chan struct{}, a.cfg.ParallelStarts),
		Data:   dataSource{a}, DataPace: alloc.NewPace(dataRate),
		HostEnv: os.Environ(), Rules: a.cfg.Rules, Now: time.Now, Jitter: rand.Float64, Logger: a.cfg.Logger.Named("alloc"),
	}
	a.openRegistrar()
	run.Logins = a.logins
	groups := cgroup.New(cgroup.Config{Owner: a.owner(), Cores: a.usableCores, All: a.allCores, Logger: a.cfg.Logger.Named("cgroup")})
	run.Cgroups, run.CoresChanged = groups, func() { a.allocs.ShareCores() }
	if err := a.prepares(run); err != nil {
		return err
	}
	a.allocs = allocs.New(allocs.Config{
		Run: run, Updates: a.updates, Limited: func() { a.cutoff.Look() }, Garbage: func() { a.collector.Garbage() }, Parallel: a.cfg.ParallelStarts, Logger: a.cfg.Logger,
	})
	a.running.Store(a.allocs)
	a.collector = collect.New(collect.Config{
		Limits: a.cfg.GC, Root: a.cfg.AllocDir, Allocs: a.allocs, Drivers: a.plugins, Networks: a.plugins, Cgroups: groups, EndAcknowledged: a.updates.EndAcknowledged, Logger: a.cfg.Logger,
	})
	if a.cutoff, err = cutoff.New(ctx, cutoff.Config{Store: a.store, Allocs: a.allocs, Session: a.session.State, Logger: a.cfg.Logger}); err != nil {
		return err
	}
	a.serve()
	a.session.Bind(session.Parts{
		Node: a.registration, Handler: a.server, Allocs: a.allocs, Updates: a.updates, Schemas: &a.schemas, Releases: a.askReleases,
	})
	if err := <-started; err != nil {
		return err
	}
	a.node = a.describe()
	return nil
}

// openHost begins to start the plugin host, unless the agent has plugins from elsewhere.
// started has the outcome. The host asks for the topology after probed is closed.
func (a *Agent) openHost(ctx context.Context, probed <-chan struct{}) (started <-chan error, err error) {
	out := make(chan error, 1)
	if a.plugins != nil {
		out <- nil
		return out, nil
	}
	a.host, err = pluginhost.New(pluginhost.Config{
		Dir: a.cfg.PluginDir, StateDir: filepath.Join(a.cfg.DataDir, "plugins"), Store: a.store,
		Logger: a.cfg.Logger.Named("plugins"), DriverConfig: a.cfg.PluginConfig, Args: a.cfg.PluginArgs, LogCollector: a.cfg.LogCollector,
		OnDemand: []string{storage.Adapter, registrar.Plugin}, Confine: true, Access: a.cfg.PluginAccess, Hidden: a.ownDirs(),
		ProcessLimits: a.cfg.PluginLimits, StatsInterval: a.cfg.StatsInterval, Tasks: a.tasksToMeasure,
		Topology: func() *model.Topology { <-probed; return a.facts.Resources.Processors.Topology },
		Roots:    taskroot.New(a.cfg.ChrootEnv, a.ownDirs()...),
		Host:     plugin.Host{Version: a.cfg.Fingerprint.Version, NodeID: a.nodeID, Region: a.cfg.Region},
		Env: []string{
			plugin.StateDirEnv + "=" + pluginStateDir(a.cfg.DataDir),
			plugin.AgentDirsEnv + "=" + strings.Join(a.ownDirs(), "\n"),
		},
	})
	if err != nil {
		return nil, err
	}
	a.plugins = a.host
	go func() { out <- a.host.Start(ctx) }()
	return out, nil
}

// readOwn reads what the node remembers of itself: who it is, its metadata and its host
// volumes.
func (a *Agent) readOwn(ctx context.Context) (err error) {
	if a.nodeID, a.secret, err = identity(ctx, a.store); err != nil {
		return err
	}
	if err = a.meta.load(ctx, a.store); err != nil {
		return err
	}
	return a.openHostVolumes(ctx)
}

// serve makes the server of requests to the node.
func (a *Agent) serve() {
	cfg := serve.Config{
		Root: a.cfg.AllocDir, Allocs: a.allocs, Collector: a.collector, Meta: metaOf{a}, Cluster: a.session, HTTP: a.http,
		PluginInstall: a.cfg.PluginInstall, Machine: a.plugins, Samples: a.stats, MHz: a.mhz(), NoExec: a.cfg.NoExec, HostVolumes: a.volumes, Storage: a.storage, Logger: a.cfg.Logger,
	}
	if a.host != nil {
		cfg.Plugins, cfg.Drivers = a.host, a.host
	}
	a.server = serve.New(cfg)
}

// Call implements rpc.Node.
func (a *Agent) Call(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error {
	return a.server.Call(ctx, call, in, send)
}

// userExists reports whether a user or a group of the machine has an id.
func userExists(id int) bool {
	_, err := user.LookupId(strconv.Itoa(id))
	_, gerr := user.LookupGroupId(strconv.Itoa(id))
	return err == nil || gerr == nil
}

// ownDirs returns the directories that tasks and restricted plugins do not see.
func (a *Agent) ownDirs() []string {
	return append(slices.Clone(a.cfg.Hidden), a.cfg.DataDir, a.cfg.AllocDir)
}

// maxStateDir keeps the socket paths below the plugins' state directory within the
// limit of 108 bytes.
const maxStateDir = 64

// pluginStateDir returns the directory for state that outlives plugin processes. It is
// separate for each node, so that two agents on a machine do not share it.
func pluginStateDir(dataDir string) string {
	dir := filepath.Join(dataDir, "plugin-state")
	if len(dir) <= maxStateDir {
		return dir
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(os.TempDir(), "drover-plugins-"+hex.EncodeToString(sum[:6]))
}

// Start recovers the allocs that were running and begins the session.
func (a *Agent) Start(ctx context.Context) error {
	ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	records, err := a.store.Allocs()
	if err != nil {
		a.cancel()
		return err
	}
	a.allocs.Restore(records)
	a.dns.restore()
	a.redescribe() // drivers of volumes run in allocs
	a.work.Go(func() { a.updates.Run(ctx) })
	a.work.Go(func() { a.devices.Run(ctx) })
	a.work.Go(func() { a.volumes.Run(ctx) })
	a.work.Go(func() { a.storage.Run(ctx) })
	a.work.Go(func() { a.watchDisks(ctx) })
	a.work.Go(func() { a.followFingerprints(ctx) })
	a.work.Go(func() { a.registrar.Run(ctx) })
	a.work.Go(func() { a.session.Run(ctx) })
	a.work.Go(func() { a.cutoff.Run(ctx) })
	a.keepReleases(ctx)
	a.work.Go(func() { a.collector.Run(ctx) })
	a.work.Go(func() { a.collector.Sweep(ctx) })
	if a.cfg.AllocMetrics {
		a.work.Go(func() { a.keepTaskStats(ctx) })
	}
	return nil
}

// HTTP returns the listener for requests to the agent that arrive over the session.
func (a *Agent) HTTP() net.Listener { return a.http.Open() }

// Ready is closed once the node has registered.
func (a *Agent) Ready() <-chan struct{} { return a.session.Ready() }

// Close stops the agent. Tasks keep running: the next agent process with the same data
// directory recovers them. A development agent calls StopAll first.
func (a *Agent) Close() error {
	if a.cancel != nil {
		a.session.SayAway()
		a.cancel()
	}
	a.work.Wait()
	a.allocs.Close()
	a.storage.Close()
	a.checks.Close()
	a.stats.Close()
	return a.closeParts()
}

func (a *Agent) closeParts() error {
	a.dns.close()
	if a.taskAPI != nil {
		_ = a.taskAPI.Close() // connections of tasks, which try again
	}
	if a.host != nil {
		a.host.Close(false)
	}
	return a.store.Close()
}

// Remaining counts the allocs that have not ended, without allocs of system jobs if they
// are to be ignored.
func (a *Agent) Remaining(ignoreSystem bool) (n int) {
	for _, r := range a.allocs.Runners() {
		kind := r.Alloc().Job.Type
		if !r.Ended() && !(ignoreSystem && (kind == model.JobTypeSystem || kind == model.JobTypeSysBatch)) {
			n++
		}
	}
	return n
}

// StopAll stops every alloc and waits until all have ended or ctx ends. Tasks that
// still run then are killed, so that nothing is left behind.
func (a *Agent) StopAll(ctx context.Context) {
	a.allocs.StopAll(ctx)
	a.flushServices(ctx)
}
