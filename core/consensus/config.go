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

// Config says how a server takes part in the log.
type Config struct {
	// NodeID names this server in the membership. It must stay the same over
	// restarts and addresses.
	NodeID string
	// DataDir holds the log and the snapshots. Empty keeps both in memory: a
	// restart then loses everything.
	DataDir string
	// Dev trades write throughput for memory, for an agent on a laptop.
	Dev bool

	// Listener takes connections of other servers; nil means that this server
	// is alone and talks to nobody. The Node closes it.
	Listener net.Listener
	// Advertise is the address at which the others reach Listener; empty means
	// the address of Listener.
	Advertise string
	// Dial connects to another server; nil means TCP without TLS.
	Dial func(address string, timeout time.Duration) (net.Conn, error)

	// Bootstrap lists the first members of a new cluster. It is used only if
	// this server has no log yet. Empty with a nil Listener means: this server
	// alone; empty with a Listener means that a leader must add this server.
	Bootstrap []Server

	// Expected says that this server has taken part before: a log that is empty
	// then is refused, since it was lost.
	Expected bool

	// Machine is what the log is applied to.
	Machine StateMachine
	// Fatal is told, once, that Machine cannot go on. It must not block; the caller
	// closes the Node. Nil means nobody is told.
	Fatal func(error)
	// Logger receives raft's words. Nil means none are logged.
	Logger hclog.Logger

	// HeartbeatTimeout is how long a follower waits for its leader before it
	// stands for election; 0 means 400 ms.
	HeartbeatTimeout time.Duration
	// SnapshotThreshold is the number of entries after which a snapshot is
	// taken, SnapshotInterval how often that is asked, TrailingLogs how many
	// entries stay in the log behind a snapshot. 0 means raft's own 8,192, 2
	// minutes and 10,240.
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	TrailingLogs      uint64
}

const (
	defaultHeartbeat = 400 * time.Millisecond
	// maxAppendEntries also bounds a batch of ApplyBatch: beyond 512 the
	// spikes show no gain.
	maxAppendEntries = 512
	// devCachedEntries is how many entries an agent for development keeps beside its log.
	devCachedEntries = 32
	// keepSnapshots is how many finished snapshots stay on disk.
	keepSnapshots = 2
	// memoryAddress is the address of a server that talks to nobody.
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
	r.HeartbeatTimeout = orElse(c.HeartbeatTimeout, defaultHeartbeat)
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
