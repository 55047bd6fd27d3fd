// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Timeouts returns the timeouts of heartbeats, elections and the leader's lease.
func Timeouts(c Config) (heartbeat, election, lease time.Duration) {
	r := c.raftConfig(hclog.NewNullLogger())
	return r.HeartbeatTimeout, r.ElectionTimeout, r.LeaderLeaseTimeout
}

// NewFaults puts watched stores over others; who waits for a failed disk goes on when
// release is closed.
func NewFaults(log raft.LogStore, stable raft.StableStore, fatal func(error), release chan struct{}) (interface {
	raft.LogStore
	raft.StableStore
}, func()) {
	f := &faults{LogStore: log, stable: stable, fatal: fatal, forever: release}
	return f, func() { f.running.Store(true) }
}

// NewFull puts a store with a reserve over another one, on a disk with the room that is
// free; it is running.
func NewFull(log raft.LogStore, stable raft.StableStore, fatal func(error), release chan struct{}, reserve uint64, free func() uint64) interface {
	raft.LogStore
	raft.StableStore
} {
	f := &faults{LogStore: log, stable: stable, fatal: fatal, forever: release, reserve: reserve, room: func(needed uint64) error {
		if free() < needed {
			return errdefs.ResourceExhaustedf("full")
		}
		return nil
	}}
	f.running.Store(true)
	return f
}

// Pipeline returns what a Node makes of a pipeline of raft's transport.
func Pipeline(p raft.AppendPipeline) raft.AppendPipeline {
	return &pipeline{AppendPipeline: p, of: &pipelines{open: map[raft.AppendPipeline]bool{}}}
}

// RecoverOnly carries out the recovery of Open, and leaves peers.json as it would be if the
// server died after that.
func RecoverOnly(cfg Config) (err error) {
	n := &Node{logger: hclog.NewNullLogger(), pending: newPending()}
	fatal := func(err error) { n.breakDown(err, nil) }
	if n.stores, err = openStores(cfg, n.logger, fatal); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stores.close()) }()
	n.transport = openTransport(Config{}, n.stores.log, n.logger, nil)
	defer n.transport.Close()
	return n.recover(cfg, adapter{machine: cfg.Machine, closing: context.Background(), fatal: fatal})
}

// Turn is how much later than the timeout a follower looks whether its leader is silent.
func Turn(voters []string, self, leader string, timeout time.Duration) time.Duration {
	var c raft.Configuration
	for _, v := range voters {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(v), Suffrage: raft.Voter})
	}
	return turn(c, raft.ServerID(self), raft.ServerID(leader), timeout)
}

// NewRepeats is the log of raft that leaves out what it has said, with a clock; forget is
// what happens when a server answers again.
func NewRepeats(logger hclog.Logger, now func() time.Time) (log hclog.Logger, forget func(names ...string) int) {
	r := newRepeats(logger)
	r.now = now
	return r, r.forget
}

// Member is a server as raft names it in its log.
func Member(id, address string) any {
	return raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(address)}
}

// Ends tells a log of NewRepeats that the node closes.
func Ends(log hclog.Logger) { log.(*repeats).ending.Store(true) }

// GrowthLimit returns the bytes of log after which a snapshot is taken.
func (n *Node) GrowthLimit() int64 { return n.stores.growth.limit.Load() }
