// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package config owns the agent's configuration: its files (HCL and JSON, single or in
// directories), merging, defaults and validation. Keys are those of the reference. A
// key that is known but has no effect yet causes a warning that names it, or an error
// if ignoring it would be unsafe; an unknown key is an error with file and line.
// cmd/drover imports it.
package config

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/installed"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Config is an agent's configuration. JSON names are the keys of the file.
type Config struct {
	Region      string `json:"region,omitempty"`
	Datacenter  string `json:"datacenter,omitempty"`
	Name        string `json:"name,omitempty"`
	DataDir     string `json:"data_dir,omitempty"`
	PluginDir   string `json:"plugin_dir,omitempty"`
	LogLevel    string `json:"log_level,omitempty"`
	LogJSON     bool   `json:"log_json,omitempty"`
	LogFile     string `json:"log_file,omitempty"`
	LogLocation bool   `json:"log_include_location,omitempty"`
	// LogRotateBytes, LogRotateDuration and LogRotateMaxFiles say when LogFile is put
	// away, and how many older files stay.
	LogRotateBytes    int64     `json:"log_rotate_bytes,omitempty"`
	LogRotateDuration string    `json:"log_rotate_duration,omitempty"`
	LogRotateMaxFiles int       `json:"log_rotate_max_files,omitempty"`
	EnableSyslog      bool      `json:"enable_syslog,omitempty"`
	SyslogFacility    string    `json:"syslog_facility,omitempty"`
	BindAddr          string    `json:"bind_addr,omitempty"`
	EnableDebug       bool      `json:"enable_debug,omitempty"`
	LeaveOnInt        bool      `json:"leave_on_interrupt,omitempty"`
	LeaveOnTerm       bool      `json:"leave_on_terminate,omitempty"`
	Ports             Ports     `json:"ports"`
	Addresses         Addresses `json:"addresses"`
	Advertise         Addresses `json:"advertise"`
	Client            Client    `json:"client"`
	Server            Server    `json:"server"`
	Autopilot         Autopilot `json:"autopilot"`
	// Snapshot lets the leader take snapshots at intervals; nil means none.
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	// Consul are the Consul clusters, by name.
	Consul    Consuls   `json:"consul,omitempty"`
	DNS       DNS       `json:"dns"`
	Telemetry Telemetry `json:"telemetry"`
	Plugins   Plugins   `json:"plugin,omitempty"`
	Headers   Strings   `json:"http_api_response_headers,omitempty"`
	// AllowedHosts are names under which clients call the HTTP API, besides the names of
	// HTTPNames.
	AllowedHosts []string `json:"http_allowed_hosts,omitempty"`
	Limits       Limits   `json:"limits"`
	TLS          TLS      `json:"tls"`

	// Dev is a development agent: server and node at once, without persistent data.
	Dev bool `json:"-"`
	// Files are the files that were loaded.
	Files []string `json:"-"`
	// Warnings name known keys that have no effect.
	Warnings []string `json:"-"`
}

// Strings is a map of strings that may also be written as blocks.
type Strings map[string]string

// Ports are the ports that the agent listens on.
type Ports struct {
	HTTP int `json:"http,omitempty"`
	RPC  int `json:"rpc,omitempty"`
	Serf int `json:"serf,omitempty"`
}

// Addresses override BindAddr, or the addresses that are advertised (host or
// host:port).
type Addresses struct {
	HTTP string `json:"http,omitempty"`
	RPC  string `json:"rpc,omitempty"`
	Serf string `json:"serf,omitempty"`
}

// Client configures the node side.
type Client struct {
	Enabled  bool   `json:"enabled,omitempty"`
	StateDir string `json:"state_dir,omitempty"`
	// IntroToken introduces a new node to its servers. It has no key, only a flag: a file of
	// the configuration outlives it.
	IntroToken string   `json:"-"`
	AllocDir   string   `json:"alloc_dir,omitempty"`
	Servers    []string `json:"servers,omitempty"`
	// ServerJoin also names servers: see ServerAddresses.
	ServerJoin ServerJoin `json:"server_join"`
	NodeClass  string     `json:"node_class,omitempty"`
	NodePool   string     `json:"node_pool,omitempty"`
	Meta       Strings    `json:"meta,omitempty"`
	// ChrootEnv lists the paths of the machine that isolated tasks see: path on the
	// machine = path in the task.
	ChrootEnv        Strings `json:"chroot_env,omitempty"`
	NetworkInterface string  `json:"network_interface,omitempty"`
	// NetworkSpeed is the speed of the interface in MBit/s; 0 means 1000.
	NetworkSpeed int `json:"network_speed,omitempty"`
	// ServiceDiscovery says whether the node runs groups with services of provider
	// "nomad"; nil means yes.
	ServiceDiscovery *bool       `json:"nomad_service_discovery,omitempty"`
	CPUTotalCompute  int         `json:"cpu_total_compute,omitempty"`
	MemoryTotalMB    int         `json:"memory_total_mb,omitempty"`
	DiskTotalMB      int         `json:"disk_total_mb,omitempty"`
	DiskFreeMB       int         `json:"disk_free_mb,omitempty"`
	ReservableCores  string      `json:"reservable_cores,omitempty"`
	MaxKillTimeout   string      `json:"max_kill_timeout,omitempty"`
	MinDynamicPort   int         `json:"min_dynamic_port,omitempty"`
	MaxDynamicPort   int         `json:"max_dynamic_port,omitempty"`
	Reserved         Reserved    `json:"reserved"`
	GCMaxAllocs      int         `json:"gc_max_allocs,omitempty"`
	GCInterval       string      `json:"gc_interval,omitempty"`
	GCParallel       int         `json:"gc_parallel_destroys,omitempty"`
	GCDiskUsage      float64     `json:"gc_disk_usage_threshold,omitempty"`
	GCInodeUsage     float64     `json:"gc_inode_usage_threshold,omitempty"`
	NodeMaxAllocs    int         `json:"node_max_allocs,omitempty"`
	HostVolumes      HostVolumes `json:"host_volume,omitempty"`
	// HostVolumesDir is where plugins make dynamic host volumes, and HostVolumePluginDir has
	// the executables that are such plugins.
	HostVolumesDir      string `json:"host_volumes_dir,omitempty"`
	HostVolumePluginDir string `json:"host_volume_plugin_dir,omitempty"`
	// GCVolumesOnNodeGC makes servers forget the node's dynamic host volumes when they forget
	// the node, because it has been down for long.
	GCVolumesOnNodeGC bool         `json:"gc_volumes_on_node_gc,omitempty"`
	HostNetworks      HostNetworks `json:"host_network,omitempty"`
	Options           Strings      `json:"options,omitempty"`
	DefaultIneligible bool         `json:"default_ineligible,omitempty"`
	// Drain configures the drain of the node when the agent shuts down; nil disables
	// it.
	Drain             *Drain `json:"drain_on_shutdown,omitempty"`
	DisableRemoteExec bool   `json:"disable_remote_exec,omitempty"`
	// Users are the ids for allocs; with nil allocs get none.
	Users *Users `json:"users,omitempty"`
	// PluginInstall allows plugins to be installed and removed over the API.
	PluginInstall bool     `json:"plugin_install,omitempty"`
	Artifact      Artifact `json:"artifact"`
	Template      Template `json:"template"`
	Bridge
	CNI
}

// Reserved are the node's resources that allocs may not use.
type Reserved struct {
	CPU      int    `json:"cpu,omitempty"`
	MemoryMB int    `json:"memory,omitempty"`
	DiskMB   int    `json:"disk,omitempty"`
	Ports    string `json:"reserved_ports,omitempty"`
	Cores    string `json:"cores,omitempty"` // "0-1,7"
}

// HostVolumes are directories of the node that jobs may ask for, by name.
type HostVolumes map[string]HostVolume

// HostVolume is one host volume.
type HostVolume struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// HostNetworks are named address ranges of the node.
type HostNetworks map[string]HostNetwork

// HostNetwork is one host network.
type HostNetwork struct {
	CIDR          string `json:"cidr,omitempty"`
	Interface     string `json:"interface,omitempty"`
	ReservedPorts string `json:"reserved_ports,omitempty"`
}

// Server configures the server side.
type Server struct {
	Enabled bool `json:"enabled,omitempty"`
	// BootstrapExpect is the number of servers with which a new cluster begins; 0 means
	// that this server joins one, or, if it has nothing to join, is alone.
	BootstrapExpect int `json:"bootstrap_expect,omitempty"`
	// ServerJoin, and the four older keys with the same meaning, say how this server
	// finds others; see Join.
	ServerJoin    Join     `json:"server_join"`
	StartJoin     []string `json:"start_join,omitempty"`
	RetryJoin     []string `json:"retry_join,omitempty"`
	RetryMax      int      `json:"retry_max,omitempty"`
	RetryInterval string   `json:"retry_interval,omitempty"`
	// RejoinAfterLeave joins the servers that were known before this server left.
	RejoinAfterLeave bool `json:"rejoin_after_leave,omitempty"`
	// ClientIntroduction says how new nodes are introduced.
	ClientIntroduction ClientIntroduction `json:"client_introduction"`
	// Encrypt is the first key of the gossip, in base64.
	Encrypt               string `json:"encrypt,omitempty"`
	DataDir               string `json:"data_dir,omitempty"`
	NumSchedulers         *int   `json:"num_schedulers,omitempty"`
	NodeGCThreshold       string `json:"node_gc_threshold,omitempty"`
	JobGCInterval         string `json:"job_gc_interval,omitempty"`
	JobGCThreshold        string `json:"job_gc_threshold,omitempty"`
	EvalGCThreshold       string `json:"eval_gc_threshold,omitempty"`
	BatchEvalGCThreshold  string `json:"batch_eval_gc_threshold,omitempty"`
	DeploymentGCThreshold string `json:"deployment_gc_threshold,omitempty"`
	// HistoryMaxAge and HistoryMaxSize bound what this server keeps of deployments and
	// evaluations after their collection.
	HistoryMaxAge      string `json:"history_max_age,omitempty"`
	HistoryMaxSize     string `json:"history_max_size,omitempty"`
	JobDefaultPriority int    `json:"job_default_priority,omitempty"`
	JobMaxPriority     int    `json:"job_max_priority,omitempty"`
	JobMaxCount        int    `json:"job_max_count,omitempty"`
	JobMaxSourceSize   string `json:"job_max_source_size,omitempty"`
	HeartbeatGrace     string `json:"heartbeat_grace,omitempty"`
	MinHeartbeatTTL    string `json:"min_heartbeat_ttl,omitempty"`
	// MaxHeartbeats limits the heartbeats of all nodes per second; 0 means no limit.
	MaxHeartbeats float64 `json:"max_heartbeats_per_second,omitempty"`
	// FailoverTTL is how long nodes have to send a heartbeat to a new leader.
	FailoverTTL string `json:"failover_heartbeat_ttl,omitempty"`
	// EventBufferSize is the number of changes that are kept for subscribers of the
	// event stream.
	EventBufferSize *int `json:"event_buffer_size,omitempty"`
	// SchedulerDefaults is the initial scheduler configuration of a new cluster.
	SchedulerDefaults     *SchedulerDefaults `json:"default_scheduler_config,omitempty"`
	RaftSnapshotThreshold int                `json:"raft_snapshot_threshold,omitempty"`
	// RaftSnapshotInterval is the interval at which the need for a snapshot is checked.
	RaftSnapshotInterval string `json:"raft_snapshot_interval,omitempty"`
	// RaftMultiplier scales the timeouts of elections, for slow machines and networks: 1
	// to 10, 1 by default.
	RaftMultiplier *int `json:"raft_multiplier,omitempty"`
	// StartTimeout is how long a server that is a cluster of its own may take to lead.
	StartTimeout string `json:"start_timeout,omitempty"`
	// RootKeyRotation is the age at which the root key of the keyring is replaced,
	// RootKeyGC the age from which an unneeded key is removed, and RootKeyInterval the
	// interval of this check.
	RootKeyRotation string `json:"root_key_rotation_threshold,omitempty"`
	RootKeyGC       string `json:"root_key_gc_threshold,omitempty"`
	RootKeyInterval string `json:"root_key_gc_interval,omitempty"`
	Search          Search `json:"search"`
	// OIDCIssuer is the URL under which other services reach this API to verify tokens of
	// tasks, and IdentityAlgorithm is EdDSA or RS256: see IdentitySigning.
	OIDCIssuer        string `json:"oidc_issuer,omitempty"`
	IdentityAlgorithm string `json:"identity_algorithm,omitempty"`
	// EventBroker says whether the event stream is served; nil means yes.
	EventBroker *bool `json:"enable_event_broker,omitempty"`
	// EnabledSchedulers must name all types of jobs: see schedulerProblems.
	EnabledSchedulers []string `json:"enabled_schedulers,omitempty"`
	RaftTrailingLogs  int      `json:"raft_trailing_logs,omitempty"`
	// NonVotingServer makes this server one that receives the log and serves stale reads,
	// but never votes. Autopilot compares RedundancyZone and UpgradeVersion; see Autopilot.
	NonVotingServer bool   `json:"non_voting_server,omitempty"`
	RedundancyZone  string `json:"redundancy_zone,omitempty"`
	UpgradeVersion  string `json:"upgrade_version,omitempty"`
	// PluginRegistry allows clients of the API to run plugins on all nodes.
	PluginRegistry bool `json:"plugin_registry,omitempty"`
	// PlanRejections says when a node that keeps refusing plans is made ineligible.
	PlanRejections PlanRejectionTracker `json:"plan_rejection_tracker"`
}

// Search limits the searches of the API.
type Search struct {
	// Fuzzy allows fuzzy searches; nil means yes.
	Fuzzy *bool `json:"fuzzy_enabled,omitempty"`
	// LimitResults is the largest number of results of a fuzzy search per context: 20 by
	// default.
	LimitResults int `json:"limit_results,omitempty"`
	// MinTermLength is the length of the shortest term of a fuzzy search: 2 by default.
	MinTermLength int `json:"min_term_length,omitempty"`
}

// Limits are limits for clients of the agent.
type Limits struct {
	// HTTPMaxConnsPerClient is the maximum number of connections of one address to the
	// HTTP API: 100 by default, 0 means no limit.
	HTTPMaxConnsPerClient *int `json:"http_max_conns_per_client,omitempty"`
	// RPCMaxConnsPerClient is the limit for the servers' rpc port. RPCHandshakeTimeout is
	// the time limit for the handshake of a connection to it: 5s by default.
	RPCMaxConnsPerClient *int   `json:"rpc_max_conns_per_client,omitempty"`
	RPCHandshakeTimeout  string `json:"rpc_handshake_timeout,omitempty"`
	// HTTPSHandshakeTimeout is the time limit for the TLS handshake of a connection to
	// the HTTP API: 5s unless set.
	HTTPSHandshakeTimeout string `json:"https_handshake_timeout,omitempty"`
}

// Plugins are the plugin "NAME" { } blocks by name.
type Plugins map[string]Plugin

// Plugin configures one plugin; Config is validated against its schema.
type Plugin struct {
	Args   []string       `json:"args,omitempty"`
	Config map[string]any `json:"config,omitempty"`
	// Access has the rights of the plugin's process.
	confine.Access
}

// Defaults returns the configuration before any file or flag is read.
func Defaults() *Config {
	return &Config{
		Region:     model.DefaultRegion,
		Datacenter: "dc1",
		LogLevel:   "INFO",
		BindAddr:   "0.0.0.0",
		Ports:      Ports{HTTP: 4646, RPC: 4647, Serf: 4648},
		Client:     Client{NodePool: model.NodePoolDefault, MinDynamicPort: 20000, MaxDynamicPort: 32000, GCMaxAllocs: 50, GCInterval: "1m", GCParallel: 2, GCDiskUsage: 80, GCInodeUsage: 70, MaxKillTimeout: "30s", Artifact: defaultArtifact(), Template: defaultTemplate()},
		Telemetry:  Telemetry{CollectionInterval: "1s", InMemoryCollectionInterval: "10s", InMemoryRetentionPeriod: "1m"},
	}
}

// DevDefaults returns the configuration of a development agent.
func DevDefaults() *Config {
	c := Defaults()
	c.Dev = true
	c.BindAddr = "127.0.0.1"
	c.Client.Enabled, c.Server.Enabled, c.Server.BootstrapExpect = true, true, 1
	c.Client.PluginInstall = true
	c.Server.PluginRegistry = true
	c.LogLevel = "DEBUG"
	c.EnableDebug = true
	c.Telemetry.PrometheusMetrics, c.Telemetry.PublishAllocationMetrics, c.Telemetry.PublishNodeMetrics = true, true, true
	if runtime.GOOS == "linux" {
		c.Client.NetworkInterface = "lo" // tasks of a development agent should be reachable only from this machine
	}
	return c
}

// Finish fills in derived values and validates the configuration.
func (c *Config) Finish() error {
	c.fillEmpty()
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("this machine has no host name; set `name` in the configuration or -node: %w", err)
		}
		c.Name = host
	}
	if c.PluginDir == "" {
		if beside, err := installed.Beside("plugins"); err == nil {
			c.PluginDir = beside
		}
	}
	if c.Server.Enabled && c.Server.BootstrapExpect == 0 && !c.Server.Joins() {
		c.Server.BootstrapExpect = 1
	}
	problems := c.resolveTemplates()
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if !c.Client.Enabled && !c.Server.Enabled {
		add("the agent must be a server, a client (node) or both: use -server, -client, or -dev for a trial")
	}
	if c.DataDir == "" && !c.Dev {
		add("data_dir is missing: set it in the configuration or with -data-dir")
	}
	for name, port := range map[string]int{"http": c.Ports.HTTP, "rpc": c.Ports.RPC, "serf": c.Ports.Serf} {
		if port < 0 || port > 65535 {
			add("ports.%s %d is not a port (0 to 65535)", name, port)
		}
	}
	if c.Client.MinDynamicPort > c.Client.MaxDynamicPort || c.Client.MinDynamicPort < 0 || c.Client.MaxDynamicPort > 65535 {
		add("client.min_dynamic_port %d and max_dynamic_port %d are not a range of ports", c.Client.MinDynamicPort, c.Client.MaxDynamicPort)
	}
	if err := model.CheckReservedPorts("client.reserved.reserved_ports", c.Client.Reserved.Ports); err != nil {
		add("%s", strings.Join(model.Problems(err), "; "))
	}
	problems = append(problems, c.durationProblems()...)
	problems = append(problems, c.numberProblems()...)
	problems = append(problems, c.pathProblems()...)
	problems = append(problems, c.textProblems()...)
	problems = append(problems, c.Client.gcProblems()...)
	problems = append(problems, c.Client.capacityProblems()...)
	problems = append(problems, c.Client.Users.problems()...)
	problems = append(problems, c.Server.heartbeatProblems()...)
	problems = append(problems, c.Server.PlanRejections.problems()...)
	problems = append(problems, c.Limits.problems()...)
	problems = append(problems, c.leaveProblems()...)
	problems = append(problems, c.Server.ClientIntroduction.problems()...)
	problems = append(problems, c.Server.identityProblems()...)
	problems = append(problems, c.joinProblems()...)
	problems = append(problems, c.autopilotProblems()...)
	problems = append(problems, c.snapshotProblems()...)
	problems = append(problems, c.dnsProblems()...)
	problems = append(problems, c.consulProblems()...)
	problems = append(problems, c.TLS.problems()...)
	problems = append(problems, c.logProblems()...)
	problems = append(problems, c.allowedHostProblems()...)
	problems = append(problems, c.Client.Artifact.problems()...)
	problems = append(problems, c.Server.jobProblems()...)
	problems = append(problems, c.Server.clusterProblems()...)
	problems = append(problems, c.Client.Template.problems()...)
	problems = append(problems, c.Telemetry.problems()...)
	_, wrong := c.Client.PluginLimits()
	problems = append(problems, wrong...)
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		p := c.Plugins[name]
		problems = append(problems, p.Problems(fmt.Sprintf("plugin %q", name))...)
	}
	c.Warnings = append(c.Warnings, slices.Concat(c.networkWarnings(), c.dnsWarnings(), c.consulWarnings(), c.TLS.warnings())...)
	if len(problems) > 0 {
		return errdefs.InvalidArgumentf("the configuration is not usable:\n  * %s", strings.Join(problems, "\n  * "))
	}
	return nil
}

// gcProblems lists the invalid values of the collection of allocs.
func (c *Client) gcProblems() (out []string) {
	if c.GCDiskUsage < 0 || c.GCDiskUsage > 100 || c.GCInodeUsage < 0 || c.GCInodeUsage > 100 {
		out = append(out, fmt.Sprintf("client.gc_disk_usage_threshold %v and gc_inode_usage_threshold %v are percentages (0 to 100)", c.GCDiskUsage, c.GCInodeUsage))
	}
	if c.GCMaxAllocs < 0 || c.GCParallel < 0 {
		out = append(out, fmt.Sprintf("client.gc_max_allocs %d and gc_parallel_destroys %d must not be negative", c.GCMaxAllocs, c.GCParallel))
	}
	return out
}

func (c *Config) durations() map[string]string {
	return map[string]string{
		"client.max_kill_timeout":                   c.Client.MaxKillTimeout,
		"client.gc_interval":                        c.Client.GCInterval,
		"server.node_gc_threshold":                  c.Server.NodeGCThreshold,
		"server.job_gc_interval":                    c.Server.JobGCInterval,
		"server.job_gc_threshold":                   c.Server.JobGCThreshold,
		"server.eval_gc_threshold":                  c.Server.EvalGCThreshold,
		"server.batch_eval_gc_threshold":            c.Server.BatchEvalGCThreshold,
		"server.deployment_gc_threshold":            c.Server.DeploymentGCThreshold,
		"server.history_max_age":                    c.Server.HistoryMaxAge,
		"limits.rpc_handshake_timeout":              c.Limits.RPCHandshakeTimeout,
		"limits.https_handshake_timeout":            c.Limits.HTTPSHandshakeTimeout,
		"server.heartbeat_grace":                    c.Server.HeartbeatGrace,
		"server.min_heartbeat_ttl":                  c.Server.MinHeartbeatTTL,
		"server.failover_heartbeat_ttl":             c.Server.FailoverTTL,
		"server.plan_rejection_tracker.node_window": c.Server.PlanRejections.NodeWindow,
		"server.retry_interval":                     c.Server.RetryInterval,
		"server.raft_snapshot_interval":             c.Server.RaftSnapshotInterval,
		"server.root_key_rotation_threshold":        c.Server.RootKeyRotation,
		"server.root_key_gc_threshold":              c.Server.RootKeyGC,
		"server.root_key_gc_interval":               c.Server.RootKeyInterval,
		"server.start_timeout":                      c.Server.StartTimeout,
		"telemetry.collection_interval":             c.Telemetry.CollectionInterval,

		"autopilot.last_contact_threshold":    c.Autopilot.LastContactThreshold,
		"autopilot.server_stabilization_time": c.Autopilot.ServerStabilizationTime,

		"telemetry.in_memory_collection_interval": c.Telemetry.InMemoryCollectionInterval,
		"telemetry.in_memory_retention_period":    c.Telemetry.InMemoryRetentionPeriod,
	}
}

// ParseDuration parses a duration; empty text means zero.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	return time.ParseDuration(text)
}

// Duration returns a duration that Finish has validated, or otherwise for empty text.
func Duration(text string, otherwise time.Duration) time.Duration {
	d, err := ParseDuration(text)
	if err != nil || text == "" {
		return otherwise
	}
	return d
}

// Tree returns the configuration as generic JSON values, for /v1/agent/self.
func (c *Config) Tree() map[string]any {
	out := c.tree()
	if server := block(out, "server"); server != nil {
		delete(server, "encrypt") // a secret
	}
	return out
}
