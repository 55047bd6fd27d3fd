// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/joining"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
)

// Introduction says how new nodes are introduced: see nodetoken.Config.
type Introduction struct {
	Enforcement        string
	DefaultTTL, MaxTTL time.Duration
}

// History bounds the history of a server; see core/history. A zero bound means that none is kept.
type History struct {
	MaxAge   time.Duration
	MaxBytes int64
}

// Identities says how the tokens of tasks are signed: see identity.Config.
type Identities struct{ Issuer, Algorithm string }

// Config says how a server runs.
type Config struct {
	// DataDir is the directory of the server's id, log and snapshots; if it is empty,
	// all is kept in memory.
	DataDir string
	Dev     bool
	Region  string
	// Datacenter is this server's datacenter; nodes receive it.
	Datacenter string
	// Address is the address at which other machines reach this server (host:port).
	Address string
	// Raft connects this server to others. The zero value makes it a cluster of its
	// own, which no other server can join.
	Raft RaftConfig
	// PeerTLS is the configuration of connections to the rpc ports of other servers; nil
	// means no TLS.
	PeerTLS *tls.Config
	// Gossip finds the other servers; nil for a server on its own.
	Gossip *joining.Gossip
	// Role is how this server votes.
	Role pilot.Role
	// Autopilot is the initial configuration of autopilot; nil means the defaults.
	Autopilot *model.AutopilotConfiguration
	// PeerDial makes these connections; nil means TCP.
	PeerDial func(ctx context.Context, address string) (net.Conn, error)
	// Workers is the number of evaluations that are scheduled concurrently.
	Workers int
	GC      gc.Thresholds
	// History is how much is kept of deployments and evaluations that were removed.
	History History
	// RootKeys are the limits of the age of root keys; the zero value means the defaults.
	RootKeys keys.Limits
	Jobs     endpoint.JobLimits
	// Scheduler is the initial scheduler configuration of a new cluster; nil means the
	// built-in one.
	Scheduler *model.SchedulerConfiguration
	// PlanTracking says when a node that keeps refusing plans is taken out of service.
	PlanTracking plan.Tracking
	// MaxHeartbeats and FailoverTTL are passed to core/dispatch.
	MaxHeartbeats float64
	FailoverTTL   time.Duration
	// HeartbeatTTL is the lease of a node; 0 means the default of core/dispatch.
	HeartbeatTTL time.Duration
	// Identities says how the tokens of tasks are signed.
	Identities Identities
	// Consul are the identities that jobs get for clusters of Consul.
	Consul map[string]endpoint.ConsulIdentities
	// Introduction says which new nodes are admitted.
	Introduction Introduction
	// HeartbeatGrace is how long after its lease a silent node is marked down.
	HeartbeatGrace    time.Duration
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	TrailingLogs      uint64
	// Schedule says which snapshots the leader stores elsewhere; nil means none.
	Schedule *Schedule
	// PluginRegistry allows clients to change the registry of plugins.
	PluginRegistry bool
	LocalNode      func() string
	// Release is this server's release, for the error messages of servers that are too old
	// for its entries.
	Release string
	// Level is the newest capability level that this server reads; 0 means fsm.Level, and
	// tests of mixed clusters set an older one. Announced returns the name of another
	// server and the level that it reads, 0 if that is unknown; it may be nil.
	Level     int
	Announced func(id string) (name string, level int)
	Logger    hclog.Logger
}

// RaftConfig says how a server reaches the other servers of its cluster.
type RaftConfig struct {
	// Listener accepts raft's connections, which other servers make to the Address of
	// this one. The Server closes it.
	Listener net.Listener
	// Dial connects to the raft of another server; nil means TCP without TLS.
	Dial func(address string, timeout time.Duration) (net.Conn, error)
	// Alone makes a server without a log the first member of a new cluster. Without it
	// such a server waits for Bootstrap, or until a leader adds it.
	Alone bool
	// HeartbeatTimeout is how long a server waits for its leader before it starts an
	// election; 0 means the default of core/consensus.
	HeartbeatTimeout time.Duration
	// Multiplier scales the timeouts of elections; 0 means 1.
	Multiplier int
}

// joins reports whether other servers can reach this one.
func (c Config) joins() bool { return c.Raft.Listener != nil }

// dir returns a directory below the data directory, "" if there is none.
func (c Config) dir(name string) string {
	if c.DataDir == "" {
		return ""
	}
	return filepath.Join(c.DataDir, name)
}

// complete returns the configuration with defaults for what is unset.
func (c Config) complete() Config {
	if c.Level == 0 {
		c.Level = fsm.Level
	}
	if c.Autopilot == nil {
		c.Autopilot = model.DefaultAutopilot()
	}
	return c
}
