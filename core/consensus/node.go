// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Node is this server's part in the log. Its methods may be used by many
// goroutines at once.
type Node struct {
	id        string
	raft      *raft.Raft
	transport transport
	stores    stores
	logger    hclog.Logger
	// closing ends snapshots that are being written; cancel is its end.
	cancel context.CancelFunc
	// broken is why the state machine cannot go on: nothing is written any more.
	broken atomic.Pointer[error]
}

var _ Proposer = (*Node)(nil)

// Open starts taking part. The state machine is restored from the newest
// snapshot before Open returns; the log behind it is applied after that.
func Open(cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	logger := cfg.Logger
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	logger = logger.Named("raft")
	closing, cancel := context.WithCancel(context.Background())
	n := &Node{id: cfg.NodeID, logger: logger, cancel: cancel}
	fatal := func(err error) { n.breakDown(err, cfg.Fatal) }
	st, err := openStores(cfg, logger, fatal)
	if err != nil {
		cancel()
		return nil, err
	}
	n.stores, n.transport = st, openTransport(cfg, logger)
	if err := n.start(cfg, adapter{machine: cfg.Machine, closing: closing, fatal: fatal}); err != nil {
		cancel()
		return nil, errors.Join(err, n.transport.Close(), st.close())
	}
	return n, nil
}

// breakDown remembers that the state machine cannot go on, and tells it once.
func (n *Node) breakDown(err error, tell func(error)) {
	if n.broken.CompareAndSwap(nil, &err) && tell != nil {
		tell(err)
	}
}

// brokenDown returns why the state machine cannot go on, if it cannot. What is
// written then would be decided on a state that is not the newest.
func (n *Node) brokenDown() error {
	if err := n.broken.Load(); err != nil {
		return *err
	}
	return nil
}

func (n *Node) start(cfg Config, machine raft.FSM) error {
	conf := cfg.raftConfig(n.logger)
	if err := n.bootstrap(cfg, conf); err != nil {
		return err
	}
	r, err := raft.NewRaft(conf, machine, n.stores.log, n.stores.stable, n.stores.snapshots, n.transport)
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	n.raft = r
	if n.stores.faults != nil {
		n.stores.faults.running.Store(true)
	}
	n.electSelf()
	return nil
}

// bootstrap writes the first membership of a new cluster.
func (n *Node) bootstrap(cfg Config, conf *raft.Config) error {
	members := cfg.Bootstrap
	if len(members) == 0 && cfg.Listener == nil {
		members = []Server{{ID: cfg.NodeID, Address: string(n.transport.LocalAddr()), Voter: true}}
	}
	if len(members) == 0 {
		return nil
	}
	exists, err := raft.HasExistingState(n.stores.log, n.stores.stable, n.stores.snapshots)
	if err != nil {
		return fmt.Errorf("read whether this server has a log: %w", err)
	}
	if exists {
		return nil
	}
	if cfg.Expected {
		return errdefs.FailedPreconditionf("the log in %s is empty, though this server has taken part before: the log was removed, or its disk is not mounted. "+
			"Put it back from a backup, or start with an empty data directory and restore a snapshot", cfg.DataDir)
	}
	var first raft.Configuration
	for _, m := range members {
		first.Servers = append(first.Servers, raft.Server{
			ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Address), Suffrage: suffrage(m.Voter),
		})
	}
	if err := raft.BootstrapCluster(conf, n.stores.log, n.stores.stable, n.stores.snapshots, n.transport, first); err != nil {
		return fmt.Errorf("write the first membership: %w", err)
	}
	return nil
}

// electSelf makes the only voter stand for election at once instead of waiting
// out a heartbeat that nobody can send. It sends itself the message by which a
// leader hands over. If that fails the timeout does the same a little later.
func (n *Node) electSelf() {
	servers := n.raft.GetConfiguration().Configuration().Servers
	if len(servers) != 1 || servers[0].ID != raft.ServerID(n.id) || servers[0].Suffrage != raft.Voter {
		return
	}
	self := n.transport.LocalAddr()
	request := raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax,
		ID:              []byte(n.id),
		Addr:            n.transport.EncodePeer(raft.ServerID(n.id), self),
	}}
	if err := n.transport.TimeoutNow(raft.ServerID(n.id), self, &request, &raft.TimeoutNowResponse{}); err != nil {
		n.logger.Debug("could not stand for election at once; the election timeout will do it", "error", err)
	}
}

// Close leaves the log in order: raft first, then the connections, then the
// disk. It does not leave the membership.
func (n *Node) Close() error {
	n.snapshotAtStop()
	n.cancel()
	err := n.stop()
	return errors.Join(n.classify("stop raft", err), n.transport.Close(), n.stores.close())
}

// The snapshot at a stop: of fewer entries a start replays faster than it reads the
// whole state, and a stop must not take long.
const (
	stopSnapshotEntries = 512
	stopSnapshotTime    = 10 * time.Second
)

// snapshotAtStop spares the next start the replay of the log. If it does not come to
// an end in time the log is replayed.
func (n *Node) snapshotAtStop() {
	if n.stores.closer == nil || n.brokenDown() != nil || n.stores.space.Check() != nil {
		return
	}
	list, err := n.stores.snapshots.List()
	if err != nil {
		return // the start will say it
	}
	var newest uint64
	if len(list) > 0 {
		newest = list[0].Index
	}
	if n.raft.AppliedIndex() < newest+stopSnapshotEntries {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopSnapshotTime)
	defer cancel()
	if err := wait(ctx, n.raft.Snapshot()); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		n.logger.Warn("no snapshot was taken at the stop; the next start replays the log", "error", err)
	}
}

// brokenStop is how long a raft that has broken down is waited for: what waits for
// a disk that has failed never ends.
const brokenStop = 2 * time.Second

func (n *Node) stop() error {
	stopped := make(chan error, 1)
	go func() { stopped <- n.raft.Shutdown().Error() }()
	var late <-chan time.Time
	if n.brokenDown() != nil {
		late = time.After(brokenStop)
	}
	select {
	case err := <-stopped:
		return err
	case <-late:
		return n.brokenDown()
	}
}

// ReadOnly returns why nothing is written at present, nil if writes are taken.
func (n *Node) ReadOnly() error { return n.stores.space.Check() }

// Propose writes a command to the log: see Proposer.
func (n *Node) Propose(ctx context.Context, command []byte) (uint64, any, error) {
	const what = "write a command to the log"
	if ctx.Err() != nil {
		return 0, nil, n.classify(what, ctx.Err())
	}
	if err := n.brokenDown(); err != nil {
		return 0, nil, err
	}
	// Refused before raft sees it: a write that fails in raft costs the lead.
	if err := n.stores.space.Check(); err != nil {
		return 0, nil, err
	}
	future := n.raft.Apply(command, untilDeadline(ctx))
	if err := wait(ctx, future); err != nil {
		return 0, nil, n.classify(what, err)
	}
	answer := future.Response()
	if err, failed := answer.(error); failed {
		return future.Index(), nil, err
	}
	return future.Index(), answer, nil
}

// Barrier returns once everything that was in the log when it was called is
// applied here. Only the leader can do it.
func (n *Node) Barrier(ctx context.Context) error {
	const what = "wait for the log to be applied"
	if err := n.brokenDown(); err != nil {
		return err
	}
	if err := wait(ctx, n.raft.Barrier(untilDeadline(ctx))); err != nil {
		return n.classify(what, err)
	}
	return n.brokenDown()
}

// VerifyLeader asks a quorum whether this server still leads: a read after it
// is not stale.
func (n *Node) VerifyLeader(ctx context.Context) error {
	const what = "confirm the lead with the other servers"
	if err := n.brokenDown(); err != nil {
		return err
	}
	return n.classify(what, wait(ctx, n.raft.VerifyLeader()))
}

// AppliedIndex is the index up to which raft has handed the log to the state
// machine. It is a figure for operators: it may lag behind a Propose that has
// returned, or run ahead of the state. What the state holds, the state says.
func (n *Node) AppliedIndex() uint64 { return n.raft.AppliedIndex() }

// LastIndex is the index of the last entry in the log here.
func (n *Node) LastIndex() uint64 { return n.raft.LastIndex() }

// Stats returns raft's own figures, for operators.
func (n *Node) Stats() map[string]string { return n.raft.Stats() }

// untilDeadline is what raft takes for the time to queue a command: 0 is for
// ever, which a ctx without a deadline asks for.
func untilDeadline(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(deadline), time.Millisecond)
}

// wait returns the future's error, or that of ctx if it ends first.
func wait(ctx context.Context, future raft.Future) error {
	if ctx.Done() == nil {
		return future.Error()
	}
	// raft's futures can only be waited for. Each ends by itself: with the
	// commit, the loss of the lead or the shutdown.
	done := make(chan error, 1)
	go func() { done <- future.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
