// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package daemon is the `agent` command: it reads flags and configuration, composes
// the server, the node and the HTTP API in one process, and answers requests about
// the agent itself. Server and node communicate only through the session of
// core/rpc. cmd/drover imports it.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/core/agent"
	"github.com/drover-project/drover/core/agent/collect"
	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/core/agentlog"
	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/history"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pacer"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/core/telemetry"
)

// Time limits of starting and stopping.
const (
	leaderTimeout  = 30 * time.Second // unless start_timeout is set
	stopTasksLimit = 15 * time.Second
)

// Daemon is a running agent.
type Daemon struct {
	conf     atomic.Pointer[config.Config] // see cfg
	version  string
	log      *agentlog.Log
	dataDir  string
	scratch  bool // dataDir is temporary and removed at the end
	http     net.Listener
	rpc      *rpc.Port      // for nodes, servers and raft; nil without a server
	server   *server.Server // nil if the agent is only a node
	sessions *rpc.Server    // sessions of nodes on other machines; nil without a server
	node     *agent.Agent   // nil if the agent is only a server
	link     *rpc.Client    // connection to the servers; nil unless the agent runs only a node
	api      *api.Server
	tls      *rpc.Credentials // nil without TLS
	cancel   context.CancelFunc
	reload   func() error // reads the configuration again
	work     sync.WaitGroup

	recorder *telemetry.Recorder // metrics of the whole process
	metrics  *telemetry.Registry
	labels   map[string]string // labels of every metric
}

// Start builds and starts an agent. If its server is the whole cluster, it returns when
// that leads and the node has registered. Otherwise it does not wait for other servers.
func Start(ctx context.Context, cfg *config.Config, version string, log *agentlog.Log, reload func() error) (_ *Daemon, err error) {
	d := &Daemon{version: version, log: log, dataDir: cfg.DataDir, reload: reload}
	d.conf.Store(cfg)
	if err := d.measure(); err != nil { // first, so that the whole start is measured
		return nil, err
	}
	defer func() {
		if err != nil {
			d.Stop()
		}
	}()
	if err := d.makeDataDir(); err != nil {
		return nil, err
	}
	if err := d.openTLS(); err != nil {
		return nil, err
	}
	defer pacer.Start(d.writeBuffers())()
	if d.http, err = net.Listen("tcp", cfg.ListenHTTP()); err != nil {
		return nil, fmt.Errorf("listen for the HTTP API: %w; another agent may be running: stop it, or set ports { http = N }", err)
	}
	if cfg.Server.Enabled {
		if err := d.listen(); err != nil {
			return nil, err
		}
	}
	if err := d.startSides(ctx); err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	d.addSources()
	d.work.Go(func() { d.metrics.Run(run) })
	d.api = d.newAPI()
	var inner []net.Listener
	if d.sessions != nil {
		inner = append(inner, d.sessions.HTTP())
	}
	if d.node != nil {
		inner = append(inner, d.node.HTTP())
	}
	d.work.Go(func() {
		if err := d.api.Serve(run, d.http, inner...); err != nil {
			log.Error("the HTTP API has ended", "error", err)
		}
	})
	if d.node != nil {
		d.work.Go(func() {
			if err := d.api.ServeTasks(run, d.node.Tasks(), d.node.CheckToken); err != nil {
				log.Error("the sockets of tasks have ended", "error", err)
			}
		})
		d.work.Go(func() {
			if err := d.comeBack(run); err != nil {
				log.Warn("the node was drained at its last shutdown and could not be made eligible again; run: drover node eligibility -enable", "error", err)
			}
		})
	}
	if err := d.awaitNode(ctx); err != nil {
		return nil, err // stopped by the deferred call
	}
	d.work.Go(func() { releaseAtRest(run, d.dataDir, log) }) // the start is work
	return d, nil
}

// cfg returns the configuration. A reload replaces it; see Apply.
func (d *Daemon) cfg() *config.Config { return d.conf.Load() }

// startSides starts the server and the node concurrently, because the node's
// fingerprinting and its plugins take time.
func (d *Daemon) startSides(ctx context.Context) error {
	if !d.cfg().Server.Enabled {
		return d.startNodeOnly(ctx)
	}
	if err := d.startServer(ctx); err != nil {
		return err
	}
	if d.cfg().Client.Enabled {
		var err error
		if d.node, err = agent.New(ctx, d.nodeConfig(d.server.Sessions())); err != nil {
			return err
		}
	}
	if err := d.awaitLeader(ctx); err != nil {
		return err
	}
	d.serveNodes() // nodes on other machines that registered earlier may reconnect now
	if d.node != nil {
		return d.node.Start(ctx)
	}
	return nil
}

// startNodeOnly starts a node whose servers run on other machines.
func (d *Daemon) startNodeOnly(ctx context.Context) error {
	if err := d.dialServers(); err != nil {
		return err
	}
	var err error
	if d.node, err = agent.New(ctx, d.nodeConfig(d.link)); err != nil {
		return err
	}
	return d.node.Start(ctx)
}

func (d *Daemon) awaitNode(ctx context.Context) error {
	if d.node == nil || d.server == nil || !d.server.Alone() {
		return nil
	}
	if err := d.server.ReadOnly(); err != nil {
		d.log.Error("the disk is nearly full, so the agent is read-only: nothing is placed, changed or registered", "error", err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.startTimeout())
	defer cancel()
	select {
	case <-d.node.Ready():
		return nil
	case <-d.node.Stranger():
		return nil // the agent keeps running, so that an operator can decide through its API
	case <-ctx.Done():
		return fmt.Errorf("the node could not register with the server: %w", ctx.Err())
	}
}

// startTimeout is how long an agent that is a cluster of its own may take to lead, and
// then to register its node.
func (d *Daemon) startTimeout() time.Duration {
	return config.Duration(d.cfg().Server.StartTimeout, leaderTimeout)
}

// Failed returns a channel that receives an error when the server fails for good. It
// is nil without a server.
func (d *Daemon) Failed() <-chan error {
	if d.server == nil {
		return nil
	}
	return d.server.Failed()
}

// serverDir returns the directory of the server's state and keys.
func (d *Daemon) serverDir() string {
	return cmp.Or(d.cfg().Server.DataDir, filepath.Join(d.dataDir, "server"))
}

func (d *Daemon) serverConfig() server.Config {
	c := d.cfg().Server
	keep := gc.DefaultThresholds()
	root := keys.DefaultLimits()
	source, _ := c.JobSource() // Config.Finish has validated it
	past, _ := c.HistorySize(history.DefaultMaxBytes)
	return server.Config{
		DataDir: d.serverDir(), Dev: d.cfg().Dev, Region: d.cfg().Region, Datacenter: d.cfg().Datacenter, Address: d.cfg().AdvertiseRPC(), Workers: workersOf(d.cfg()),
		GC: gc.Thresholds{
			Eval: config.Duration(c.EvalGCThreshold, keep.Eval), BatchEval: config.Duration(c.BatchEvalGCThreshold, keep.BatchEval),
			Job: config.Duration(c.JobGCThreshold, keep.Job), Deployment: config.Duration(c.DeploymentGCThreshold, keep.Deployment),
			Node: config.Duration(c.NodeGCThreshold, keep.Node), Interval: config.Duration(c.JobGCInterval, keep.Interval),
			DriverSchema: keep.DriverSchema,
		},
		History: server.History{MaxAge: config.Duration(c.HistoryMaxAge, history.DefaultMaxAge), MaxBytes: past},
		RootKeys: keys.Limits{
			Rotation: config.Duration(c.RootKeyRotation, root.Rotation), Removal: config.Duration(c.RootKeyGC, root.Removal),
			Interval: config.Duration(c.RootKeyInterval, root.Interval),
		},
		Jobs:              endpoint.JobLimits{DefaultPriority: c.JobDefaultPriority, MaxPriority: c.JobMaxPriority, MaxCount: c.JobMaxCount, MaxSource: source},
		SnapshotThreshold: uint64(c.RaftSnapshotThreshold), SnapshotInterval: config.Duration(c.RaftSnapshotInterval, 0), TrailingLogs: uint64(c.RaftTrailingLogs),
		PluginRegistry: c.PluginRegistry, LocalNode: d.localNode, Logger: d.log, Release: d.version,
		HeartbeatTTL: config.Duration(c.MinHeartbeatTTL, 0), HeartbeatGrace: config.Duration(c.HeartbeatGrace, dispatch.DefaultGrace),
		Consul:     d.consulIdentities(),
		Identities: server.Identities{Issuer: c.OIDCIssuer, Algorithm: c.IdentitySigning()},
		Introduction: server.Introduction{
			Enforcement: c.ClientIntroduction.Enforcement, DefaultTTL: config.Duration(c.ClientIntroduction.DefaultIdentityTTL, 0), MaxTTL: config.Duration(c.ClientIntroduction.MaxIdentityTTL, 0),
		},
		PlanTracking: planTracking(&c.PlanRejections), MaxHeartbeats: c.MaxHeartbeats, FailoverTTL: config.Duration(c.FailoverTTL, 0), Scheduler: c.Scheduler(),
		Autopilot: d.cfg().Autopilot.Model(), Role: pilot.Role{Replica: c.NonVotingServer, Zone: c.RedundancyZone, Upgrade: c.UpgradeVersion},
	}
}

func planTracking(t *config.PlanRejectionTracker) (out plan.Tracking) {
	out.Threshold, out.Window = t.Limits()
	return out
}

// writeBuffers returns the size of the write buffers of the server's and the node's
// stores.
func (d *Daemon) writeBuffers() (bytes int64) {
	if d.cfg().Client.Enabled {
		bytes += durable.ProfileDev.Buffer()
	}
	switch {
	case d.cfg().Dev:
		bytes += durable.ProfileDev.Buffer()
	case d.cfg().Server.Enabled:
		bytes += durable.ProfileServer.Buffer()
	}
	return bytes
}

func (d *Daemon) localNode() string {
	if d.node == nil {
		return ""
	}
	return d.node.NodeID()
}

func (d *Daemon) nodeConfig(servers rpc.Servers) agent.Config {
	c := d.cfg().Client
	dir := filepath.Join(d.dataDir, "client")
	if c.StateDir != "" {
		dir = c.StateDir
	}
	allocs := filepath.Join(d.dataDir, "alloc")
	if c.AllocDir != "" {
		allocs = c.AllocDir
	}
	fetch := artifactConfig(c.Artifact)
	firstUser, lastUser := c.Users.Range()
	return agent.Config{
		DNS: dnsConfig(&d.cfg().DNS), Advertise: d.advertised(),
		DataDir: dir, AllocDir: allocs, Region: d.cfg().Region, Logger: d.log, Servers: servers, Node: d.describeNode(),
		RetryMax: config.Duration(c.ServerJoin.RetryInterval, 0), Intro: d.introduction(dir),
		Fingerprint: fingerprint.Options{
			Interface: c.NetworkInterface, NetworkSpeed: c.NetworkSpeed, HostNetworks: hostNetworks(c), NoServices: c.ServiceDiscovery != nil && !*c.ServiceDiscovery, Version: d.version, CPUTotalCompute: c.CPUTotalCompute, MemoryMB: c.MemoryTotalMB,
			DiskTotalMB: c.DiskTotalMB, DiskFreeMB: c.DiskFreeMB, ReservableCores: c.CoresForTasks(), MinDynamicPort: c.MinDynamicPort, MaxDynamicPort: c.MaxDynamicPort,
		},
		PluginDir: d.cfg().PluginDir, PluginConfig: d.pluginConfig(), PluginArgs: d.pluginArgs(), PluginInstall: c.PluginInstall, LogCollector: LogCollector(),
		PluginLimits: d.pluginLimits(), PluginAccess: d.pluginAccess(), Hidden: []string{d.dataDir, d.serverDir()},
		Rules:         d.taskRules(),
		StatsInterval: config.Duration(d.cfg().Telemetry.CollectionInterval, time.Second), AllocMetrics: d.cfg().Telemetry.PublishAllocationMetrics,
		GC: collect.Limits{
			MaxAllocs: c.GCMaxAllocs, Interval: config.Duration(c.GCInterval, 0), Parallel: c.GCParallel,
			DiskUsage: c.GCDiskUsage, InodeUsage: c.GCInodeUsage,
		},
		Artifact: &fetch, Template: templateConfig(c.Template), MaxKillTimeout: config.Duration(c.MaxKillTimeout, 0), SecretsInMemory: true, ChrootEnv: c.ChrootEnv,
		Ineligible: c.DefaultIneligible, NoExec: c.DisableRemoteExec, DynamicUserMin: firstUser, DynamicUserMax: lastUser,
		HostVolumesDir: cmp.Or(c.HostVolumesDir, filepath.Join(d.dataDir, "host_volumes")), HostVolumePluginDir: cmp.Or(c.HostVolumePluginDir, filepath.Join(d.dataDir, "host_volume_plugins")),
	}
}

// pluginConfig returns the plugin blocks by plugin name.
func (d *Daemon) pluginConfig() map[string]map[string]any {
	plugins := map[string]map[string]any{}
	for name, p := range d.cfg().Plugins {
		plugins[name] = p.Config
	}
	if d.cfg().Dev && plugins["raw_exec"] == nil {
		plugins["raw_exec"] = map[string]any{"enabled": true} // disabled by default elsewhere, because raw_exec does not isolate tasks
	}
	if chroot := d.cfg().Client.ChrootEnv; len(chroot) > 0 {
		for _, name := range []string{"exec", "java"} { // the drivers that build a root directory for the task
			plugins[name] = withChroot(plugins[name], chroot)
		}
	}
	d.cfg().Client.AddNetworkKeys(plugins)
	d.cfg().AddConsul(plugins)
	return plugins
}

// withChroot adds client.chroot_env to a driver's block that does not set chroot_env
// itself.
func withChroot(block map[string]any, chroot config.Strings) map[string]any {
	if block["chroot_env"] != nil {
		return block
	}
	seen := map[string]any{}
	out := map[string]any{"chroot_env": seen}
	for from, to := range chroot {
		seen[from] = to
	}
	for name, v := range block {
		out[name] = v
	}
	return out
}

// describeNode returns the node as the configuration describes it.
func (d *Daemon) describeNode() *model.Node {
	c := d.cfg().Client
	n := &model.Node{
		Name: d.cfg().Name, Datacenter: d.cfg().Datacenter, NodeClass: c.NodeClass, NodePool: c.NodePool, Meta: c.Meta,
		HTTPAddr: d.httpAddr(), TLSEnabled: d.cfg().TLS.HTTP, NodeMaxAllocs: c.NodeMaxAllocs,
		ReservedResources: &model.NodeReservedResources{
			Cpu:    model.NodeReservedCpuResources{CpuShares: uint64(c.Reserved.CPU), ReservedCpuCores: c.ReservedCores()},
			Memory: model.NodeReservedMemoryResources{MemoryMB: uint64(c.Reserved.MemoryMB)},
			Disk:   model.NodeReservedDiskResources{DiskMB: uint64(c.Reserved.DiskMB)}, Networks: model.NodeReservedNetworkResources{ReservedHostPorts: c.Reserved.Ports},
		},
		HostVolumes: map[string]*model.HostVolumeConfig{}, GCVolumesOnNodeGC: c.GCVolumesOnNodeGC,
	}
	for name, v := range c.HostVolumes {
		n.HostVolumes[name] = &model.HostVolumeConfig{Name: name, Path: v.Path, ReadOnly: v.ReadOnly}
	}
	n.HostNetworks = hostNetworks(c)
	return n
}

// hostNetworks returns the node's host networks, or nil without any.
func hostNetworks(c config.Client) (out map[string]*model.HostNetworkConfig) {
	for name, h := range c.HostNetworks {
		if out == nil {
			out = map[string]*model.HostNetworkConfig{}
		}
		out[name] = &model.HostNetworkConfig{Name: name, CIDR: h.CIDR, Interface: h.Interface, ReservedPorts: h.ReservedPorts}
	}
	return out
}

// httpAddr returns the advertised address of the HTTP API, with the port that was
// actually bound.
func (d *Daemon) httpAddr() string {
	host, _, err := net.SplitHostPort(d.cfg().AdvertiseHTTP())
	if err != nil {
		return d.http.Addr().String()
	}
	_, port, err := net.SplitHostPort(d.http.Addr().String())
	if err != nil {
		return d.http.Addr().String()
	}
	return net.JoinHostPort(host, port)
}

// Stop ends the agent. Its tasks keep running, and the next agent on the same data
// directory recovers them. Tasks of a dev agent are stopped.
func (d *Daemon) Stop() {
	if d.cancel != nil {
		d.cancel()
	} else if d.http != nil {
		d.close("HTTP listener", d.http)
	}
	if d.sessions != nil {
		d.sessions.Close()
	}
	d.work.Wait()
	if d.node != nil {
		if d.cfg().Dev {
			ctx, cancel := context.WithTimeout(context.Background(), stopTasksLimit)
			d.node.StopAll(ctx)
			cancel()
		}
		d.close("node", d.node)
	}
	if d.link != nil {
		d.close("connection to the servers", d.link)
	}
	if d.server != nil {
		d.close("server", d.server)
	}
	if d.rpc != nil {
		d.close("rpc port", d.rpc)
	}
	if d.scratch {
		if err := mounts.Detach(d.dataDir); err != nil {
			d.log.Warn("could not unmount the file systems in the scratch directory", "dir", d.dataDir, "error", err)
		}
		if err := os.RemoveAll(d.dataDir); err != nil {
			d.log.Warn("could not remove the scratch directory", "dir", d.dataDir, "error", err)
		}
	}
}

func (d *Daemon) close(what string, c io.Closer) {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		d.log.Error("could not close", "what", what, "error", err)
	}
}
