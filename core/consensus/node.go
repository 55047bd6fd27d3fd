// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Node is this server's raft node. Its methods are safe for concurrent use.
type Node struct {
	id        string
	raft      *raft.Raft
	transport transport
	stores    stores
	logger    hclog.Logger
	brief     *repeats // what raft and its transport log with
	// closing ends when the node closes, which aborts snapshots; cancel ends it.
	cancel context.CancelFunc
	// broken is the reason why the state machine cannot continue. If it is set, writes
	// are rejected.
	broken  atomic.Pointer[error]
	pending *pending
	running atomic.Pointer[raft.Raft] // raft, for the transport, which is older
	// networked is false for a server without connections to others; background are the
	// goroutines for which Close waits.
	networked  bool
	background sync.WaitGroup
	// begun is the newest term in which this server leads and has applied everything
	// committed before it. opened is the time at which the node was opened.
	begun   atomic.Uint64
	opened  time.Time
	caught  atomic.Bool // see CaughtUp
	leading changes
	asked   confirmations
}

// Open starts the node. It restores the state machine from the newest snapshot before
// it returns; later log entries are applied after that.
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
	n := &Node{
		id: cfg.NodeID, logger: logger, cancel: cancel, pending: newPending(), networked: cfg.Listener != nil,
		opened: time.Now(), leading: changes{next: make(chan struct{})},
	}
	fatal := func(err error) { n.breakDown(err, cfg.Fatal) }
	st, err := openStores(cfg, logger, fatal)
	if err != nil {
		cancel()
		return nil, err
	}
	brief := newRepeats(logger)
	n.brief = brief
	n.stores, n.transport = st, openTransport(cfg, st.log, brief, &n.running)
	if err := n.start(cfg, brief, adapter{machine: cfg.Machine, closing: closing, fatal: fatal}); err != nil {
		cancel()
		return nil, errors.Join(err, n.transport.Close(), st.close())
	}
	n.watchLeader(closing)
	n.watchRepeats(closing, brief)
	if st.growth != nil {
		n.background.Go(func() { n.watchGrowth(closing, st.growth, cfg.leastGrowth()) })
	}
	if n.networked {
		n.background.Go(func() { n.watchSilence(closing, n.raft.ReloadableConfig().HeartbeatTimeout) })
	}
	return n, nil
}

// breakDown records that the state machine cannot continue, and reports it once.
func (n *Node) breakDown(err error, tell func(error)) {
	if n.broken.CompareAndSwap(nil, &err) && tell != nil {
		tell(err)
	}
}

// brokenDown returns the reason why the state machine cannot continue, nil if it can.
// A write would be decided on outdated state.
func (n *Node) brokenDown() error {
	if err := n.broken.Load(); err != nil {
		return *err
	}
	return nil
}

func (n *Node) start(cfg Config, logger hclog.Logger, machine adapter) error {
	if err := n.recover(cfg, machine); err != nil {
		return err
	}
	conf := cfg.raftConfig(logger)
	if err := n.bootstrap(cfg, conf); err != nil {
		return err
	}
	r, err := raft.NewRaft(conf, machine, n.stores.log, n.stores.stable, n.stores.snapshots, n.transport)
	if unread := n.brokenDown(); unread != nil {
		if err == nil { // raft went on with an older snapshot
			err = r.Shutdown().Error()
		}
		return errors.Join(unread, err)
	}
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	n.raft = r
	n.running.Store(r)
	if n.stores.faults != nil {
		n.stores.faults.running.Store(true)
	}
	n.electSelf()
	return nil
}

// bootstrap writes the initial raft configuration of a new cluster, if it is already
// known.
func (n *Node) bootstrap(cfg Config, conf *raft.Config) error {
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
	members := cfg.Bootstrap
	if len(members) == 0 && cfg.Listener == nil {
		members = []Server{{ID: cfg.NodeID, Address: string(n.transport.LocalAddr()), Voter: true}}
	}
	if len(members) == 0 {
		return nil
	}
	if err := raft.BootstrapCluster(conf, n.stores.log, n.stores.stable, n.stores.snapshots, n.transport, firstMembers(members)); err != nil {
		return fmt.Errorf("write the first membership: %w", err)
	}
	return nil
}

func firstMembers(members []Server) (first raft.Configuration) {
	for _, m := range members {
		first.Servers = append(first.Servers, raft.Server{
			ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Address), Suffrage: suffrage(m.Voter),
		})
	}
	return first
}

// Bootstrap makes this server, which has no log yet, a first member of a new cluster.
// Every first member must be given the same members. FailedPrecondition: it has a log;
// then it is a member of a cluster already, and nothing was changed.
func (n *Node) Bootstrap(members []Server) error {
	err := n.raft.BootstrapCluster(firstMembers(members)).Error()
	switch {
	case errors.Is(err, raft.ErrCantBootstrap):
		return errdefs.FailedPreconditionf("make a new cluster: this server has a log of one already: %w", err)
	case err != nil:
		return n.classify("make a new cluster", err)
	}
	n.electSelf()
	return nil
}

// electSelf makes the only voter start an election at once instead of waiting for the
// heartbeat timeout. It sends itself raft's TimeoutNow message, which leaders use to
// transfer leadership. If that fails, the timeout starts the election a little later.
func (n *Node) electSelf() {
	servers := n.raft.GetConfiguration().Configuration().Servers
	if len(servers) != 1 || servers[0].ID != raft.ServerID(n.id) || servers[0].Suffrage != raft.Voter {
		return
	}
	if n.networked {
		n.background.Go(n.timeoutNow) // the port of this server may not be served yet
		return
	}
	n.timeoutNow()
}

func (n *Node) timeoutNow() {
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

// Close closes raft, then the connections, then the stores. It does not remove the
// server from the raft configuration.
func (n *Node) Close() error {
	n.snapshotAtStop()
	n.brief.ending.Store(true)
	n.cancel()
	err := errors.Join(n.classify("stop raft", n.stop()), n.transport.Close())
	n.background.Wait()
	return errors.Join(err, n.stores.close())
}

// Limits of the snapshot at shutdown: replaying fewer entries is faster than reading
// the whole state, and systemd kills a server that has not ended after a minute. A state
// of 100,000 allocs takes a second or two, and several times as long on a busy machine.
const (
	stopSnapshotEntries = 512
	stopSnapshotTime    = 30 * time.Second
)

// snapshotAtStop takes a snapshot so that the next start need not replay the log. If
// it is not complete in time, the log is replayed.
func (n *Node) snapshotAtStop() {
	if n.stores.closer == nil || n.brokenDown() != nil || n.stores.space.Check() != nil {
		return
	}
	list, err := n.stores.snapshots.List()
	if err != nil {
		return // the next start reports the error
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
	if err := n.pending.ask(ctx, func() raft.Future { return n.raft.Snapshot() }); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		n.logger.Warn("no snapshot was taken at the stop; the next start replays the log", "error", err)
	}
}

// brokenStop is how long Close waits for a raft that has broken down, because a
// goroutine that waits for a failed disk never returns.
const brokenStop = 2 * time.Second

// drainTime is how long Close waits for raft's answers: longer than a slow disk needs for
// a write. A leader that has lost the other servers notices it earlier than this.
const drainTime = 10 * time.Second

func (n *Node) stop() error {
	defer close(n.pending.down)
	if n.brokenDown() == nil {
		n.pending.drain(drainTime)
	}
	stopped := make(chan error, 1)
	down := n.raft.Shutdown()
	if t, ok := n.transport.(interface{ endPipelines() }); ok {
		t.endPipelines()
	}
	go func() { stopped <- down.Error() }()
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

// ReadOnly returns why writes are currently rejected, nil if they are accepted.
func (n *Node) ReadOnly() error { return n.stores.space.Check() }

// Propose implements propose.Log: it returns once the command is on the disks of a
// quorum and this server has applied it. It returns the command's log index and the
// state machine's result. A result that is an error is returned as err.
//
// An error of class Unavailable means that this server is not the leader (it then
// wraps a *NotLeaderError) or lost leadership meanwhile; DeadlineExceeded means that
// ctx ended first. Except with a *NotLeaderError the command may have been applied or
// may still be.
func (n *Node) Propose(ctx context.Context, command []byte) (uint64, any, error) {
	const what = "write a command to the log"
	if ctx.Err() != nil {
		return 0, nil, n.classify(what, ctx.Err())
	}
	if err := n.brokenDown(); err != nil {
		return 0, nil, err
	}
	// Reject before raft sees the command: a failed write in raft costs the
	// leadership.
	if err := n.stores.space.Check(); err != nil {
		return 0, nil, err
	}
	var future raft.ApplyFuture
	if err := n.pending.ask(ctx, func() raft.Future {
		future = n.raft.Apply(command, untilDeadline(ctx))
		return future
	}); err != nil {
		return 0, nil, n.classify(what, err)
	}
	answer := future.Response()
	if err, failed := answer.(error); failed {
		return future.Index(), nil, err
	}
	return future.Index(), answer, nil
}

// Barrier returns once everything that was in the log when it was called is applied
// here. Only the leader can do this.
func (n *Node) Barrier(ctx context.Context) error {
	const what = "wait for the log to be applied"
	if err := n.brokenDown(); err != nil {
		return err
	}
	if err := n.pending.ask(ctx, func() raft.Future { return n.raft.Barrier(untilDeadline(ctx)) }); err != nil {
		return n.classify(what, err)
	}
	return n.brokenDown()
}

// AppliedIndex returns the index up to which raft has passed the log to the state
// machine. It is information for operators: it may lag behind a Propose that has
// returned, or be ahead of the state. The state's own index is authoritative.
func (n *Node) AppliedIndex() uint64 { return n.raft.AppliedIndex() }

// LastIndex returns the index of the last entry in this server's log.
func (n *Node) LastIndex() uint64 { return n.raft.LastIndex() }

// Progress says how far this server is.
type Progress struct {
	LastIndex, LastTerm uint64 // index and term of the last entry in its log
	// LastContact is how long ago it heard from the leader; 0 for the leader. Heard is
	// false if it never did.
	LastContact time.Duration
	Heard       bool
}

// Progress returns how far this server is.
func (n *Node) Progress() Progress {
	out := Progress{LastIndex: n.raft.LastIndex(), Heard: true}
	out.LastTerm, _ = strconv.ParseUint(n.raft.Stats()["last_log_term"], 10, 64) // raft's stats always have a number here
	if n.IsLeader() {
		return out
	}
	last := n.raft.LastContact()
	out.LastContact, out.Heard = time.Since(last), !last.IsZero()
	return out
}

// Stats returns raft's statistics, for operators.
func (n *Node) Stats() map[string]string { return n.raft.Stats() }

// untilDeadline returns the enqueue timeout for raft: the time until ctx's deadline,
// or 0, which means no limit, if it has none.
func untilDeadline(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(deadline), time.Millisecond)
}
