// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Config configures a server's consensus node.
type Config struct {
	// NodeID identifies this server in the raft configuration. It must not change
	// across restarts and changes of address.
	NodeID string
	// DataDir is the directory of the log and the snapshots. If it is empty, both are
	// kept in memory and lost at a restart.
	DataDir string
	// Memory holds them if DataDir is empty, for simulations; nil means a new one.
	Memory *Memory
	// Dev reduces memory usage at the cost of write throughput, for development
	// agents.
	Dev bool

	// Listener accepts connections of other servers; nil for a single server. The Node
	// closes it.
	Listener net.Listener
	// Advertise is the address at which other servers reach Listener; by default the
	// address of Listener.
	Advertise string
	// Dial connects to another server; nil means TCP without TLS.
	Dial func(address string, timeout time.Duration) (net.Conn, error)

	// Lookup returns the address at which a server is now, if it is known: it may differ
	// from the address in the raft configuration. It may be nil.
	Lookup func(id string) (address string, known bool)

	// Bootstrap lists the first members of a new cluster. It is used only if this
	// server has no log yet. If it is empty, a server without Listener becomes a
	// cluster of its own, and a server with Listener waits until a leader adds it.
	Bootstrap []Server

	// Expected means that this server has been a member before: Open then fails if the
	// log is empty, because it was lost.
	Expected bool

	// Machine is the state machine to which the log is applied.
	Machine StateMachine
	// Fatal is called once if Machine cannot continue. It must not block; the caller
	// closes the Node. It may be nil.
	Fatal func(error)
	// Logger receives raft's log; nil drops it.
	Logger hclog.Logger

	// HeartbeatTimeout is how long a follower waits for its leader before it starts an
	// election; 0 means 400 ms.
	HeartbeatTimeout time.Duration
	// Multiplier scales HeartbeatTimeout, for slow machines and networks; 0 means 1.
	Multiplier int
	// SnapshotThreshold is the number of entries after which a snapshot is taken,
	// SnapshotInterval the interval of that check, and TrailingLogs the number of
	// entries that are kept in the log after a snapshot. 0 means raft's defaults:
	// 8,192, 2 minutes and 10,240.
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	TrailingLogs      uint64
	// SnapshotBytes is the number of bytes of log after which a snapshot is taken however few
	// entries they are, if the newest snapshot is not larger; 0 means 16 MiB. A log in memory
	// has no such limit.
	SnapshotBytes int64
}

func (c Config) leastGrowth() int64 { return orElse(c.SnapshotBytes, leastGrowth) }

const (
	defaultHeartbeat = 400 * time.Millisecond
	// maxAppendEntries also limits a batch of ApplyBatch. Above 512 the measurements
	// show no gain.
	maxAppendEntries = 512
	// devCachedEntries is the number of log entries that a development agent caches.
	devCachedEntries = 32
	// keepSnapshots is the number of snapshots that are kept on disk.
	keepSnapshots = 2
	// memoryAddress is the address of a single server without a listener.
	memoryAddress = "memory"
)

func (c Config) validate() error {
	if c.NodeID == "" {
		return errdefs.InvalidArgumentf("this server has no id; give it one in NodeID")
	}
	if c.Machine == nil {
		return errdefs.InvalidArgumentf("there is no state machine to apply the log to")
	}
	return nil
}

func (c Config) raftConfig(logger hclog.Logger) *raft.Config {
	r := raft.DefaultConfig()
	r.LocalID = raft.ServerID(c.NodeID)
	r.Logger = logger
	r.MaxAppendEntries = maxAppendEntries
	r.BatchApplyCh = true
	r.NoLegacyTelemetry = true
	// A leader that is removed from the members goes on as a server that may be added again.
	// Raft would end itself, and leave a server behind that can only be restarted.
	r.ShutdownOnRemove = false
	r.HeartbeatTimeout = orElse(c.HeartbeatTimeout, defaultHeartbeat) * time.Duration(orElse(c.Multiplier, 1))
	r.ElectionTimeout = r.HeartbeatTimeout
	r.LeaderLeaseTimeout = r.HeartbeatTimeout * 3 / 4
	r.SnapshotThreshold = orElse(c.SnapshotThreshold, r.SnapshotThreshold)
	r.SnapshotInterval = orElse(c.SnapshotInterval, r.SnapshotInterval)
	r.TrailingLogs = orElse(c.TrailingLogs, r.TrailingLogs)
	return r
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
