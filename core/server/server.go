// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package server composes the server side of an agent: it calls constructors in the
// order of their dependencies and closes in reverse, without logic of its own. Only
// cmd/drover and tests may import it. It never imports the node side.
package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/drover-project/drover/core/auth/identity"
	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/auth/keyshare"
	"github.com/drover-project/drover/core/auth/nodetoken"
	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/backup"
	"github.com/drover-project/drover/core/capability/gate"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/consensus/serverid"
	"github.com/drover-project/drover/core/consensus/term"
	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/claims"
	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/history"
	"github.com/drover-project/drover/core/joining"
	"github.com/drover-project/drover/core/peer"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/pluginfiles"
	"github.com/drover-project/drover/core/pluginfiles/mirror"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/snapshots"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/core/worker"
	"github.com/drover-project/drover/core/worker/pool"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Server is the server side of an agent.
type Server struct {
	cfg    Config
	who    serverid.Identity
	store  *state.Store
	raft   *consensus.Node
	log    gate.Log // raft, for all who propose
	joiner *joining.Joiner
	ring   *keyring.Keyring
	files  *pluginfiles.Store // nil without a data directory
	mirror *mirror.Mirror
	peers  *peer.Peers
	pilot  *pilot.Pilot
	scheduling
	dispatch  *dispatch.Dispatcher
	controls  *control.Loops
	endpoint  *endpoint.Endpoint
	claims    *claims.Keeper
	history   *history.History
	snapshots *snapshots.Snapshots
	backups   *backup.Agent // nil without a schedule
	started   time.Time
	cancel    context.CancelFunc
	work      sync.WaitGroup
	leadership
	failed chan error // capacity 1
}

// scheduling is the way of evaluations to plans in the log.
type scheduling struct {
	broker  *queue.Broker
	blocked *queue.Blocked
	workers *pool.Pool
	applier *plan.Applier
}

// leadership is what a server knows of its terms as the leader.
type leadership struct {
	term      term.Beginner
	leading   atomic.Bool
	firstTerm chan struct{} // closed by firstOnce
	firstOnce sync.Once
}

// New opens the log and constructs everything on top of it.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg.complete(), store: state.New(), started: time.Now(), leadership: leadership{firstTerm: make(chan struct{})}, failed: make(chan error, 1)}
	if err := s.openLog(); err != nil {
		return nil, err
	}
	err := s.beginLog()
	if err == nil {
		err = s.openFiles()
	}
	if err == nil {
		s.compose()
		err = s.joiner.Start(joining.Parts{Raft: s.raft, Store: s.store, Pilot: s.pilot, GiveKeys: s.giveKeys})
	}
	if err != nil {
		return nil, errors.Join(err, s.raft.Close())
	}
	return s, nil
}

// openLog opens the log under this server's id.
func (s *Server) openLog() (err error) {
	cfg := s.cfg
	if s.who, err = serverid.Read(cfg.DataDir, cfg.dir("raft"), cfg.Address); err != nil {
		return err
	}
	s.joiner = joining.New(joining.Config{
		Gossip: cfg.Gossip, ID: s.who.ID, Region: cfg.Region, Datacenter: cfg.Datacenter, Address: cfg.Address,
		DataDir: cfg.DataDir, Level: cfg.Level, Role: cfg.Role, Fail: s.fail, Logger: cfg.Logger,
	})
	s.raft, err = consensus.Open(consensus.Config{
		NodeID: s.who.ID, DataDir: cfg.dir("raft"), Expected: s.who.Known, Dev: cfg.Dev, Machine: fsm.NewAt(cfg.Level, s.store, cfg.Logger.Named("fsm")), Logger: cfg.Logger,
		Listener: cfg.Raft.Listener, Advertise: cfg.Address, Dial: cfg.Raft.Dial, HeartbeatTimeout: cfg.Raft.HeartbeatTimeout, Lookup: s.joiner.Address, Fatal: s.fail,
		Multiplier: cfg.Raft.Multiplier, SnapshotThreshold: cfg.SnapshotThreshold, SnapshotInterval: cfg.SnapshotInterval, TrailingLogs: cfg.TrailingLogs,
	})
	return err
}

// beginLog makes a server that is to be alone the first member of its cluster, and writes
// the server's id down.
func (s *Server) beginLog() error {
	if s.cfg.Raft.Alone && !s.who.Known {
		err := s.Bootstrap([]consensus.Server{{ID: s.who.ID, Address: s.cfg.Address, Voter: true}})
		if err != nil && !errdefs.IsFailedPrecondition(err) { // it has a log already
			return err
		}
	}
	return s.who.WriteDown(s.raft, s.cfg.joins())
}

// openFiles opens the files that a server keeps beside the log.
func (s *Server) openFiles() (err error) {
	if s.ring, err = keyring.Open(s.cfg.DataDir, s.who.ID); err != nil || s.cfg.DataDir == "" {
		return err
	}
	s.files, err = pluginfiles.Open(s.cfg.dir("plugins"), pluginfiles.DefaultMaxFile, pluginfiles.DefaultMaxTotal)
	return err
}

// compose constructs the parts, in the order of their dependencies.
func (s *Server) compose() {
	cfg, logger := s.cfg, s.cfg.Logger
	s.log = gate.New(s.raft, s.store, s.capabilities)
	s.peers = peer.New(peer.Config{
		ID: s.who.ID, Consensus: s.raft, Leader: s.leader, Address: s.raft.AddressOf, Reach: s.store.Reach, AcceptKey: s.acceptKey, FilePart: s.filePart, TakeFile: s.takeFile,
		TLS: cfg.PeerTLS, Dial: cfg.PeerDial, Logger: logger,
	})
	s.mirror = &mirror.Mirror{Files: s.files, State: s.store, Others: s.others, Part: s.peers.FilePart, Keep: s.peers.KeepFile, Logger: logger.Named("pluginfiles")}
	s.pilot = pilot.New(pilot.Config{ID: s.who.ID, Raft: s.raft, Store: s.store, Log: s.log, Initial: cfg.Autopilot, Leads: s.Leads, Dial: cfg.Raft.Dial, Logger: logger.Named("autopilot")})
	s.broker = queue.NewBroker(queue.Config{Lanes: worker.Lanes{Store: s.store}, Clock: queue.WallClock{}, Logger: logger.Named("broker")})
	s.blocked = queue.NewBlocked(s.broker.Enqueue)
	s.workers = pool.New(cfg.Workers)
	s.applier = plan.NewApplier(func() plan.View { return s.store.View() }, s.log, time.Now)
	s.applier.Track(cfg.PlanTracking)
	tokens := nodetoken.New(nodetoken.Config{
		Keys: s.ring, Region: cfg.Region, Enforcement: cfg.Introduction.Enforcement, DefaultTTL: cfg.Introduction.DefaultTTL, MaxTTL: cfg.Introduction.MaxTTL,
		NewID: uuid.NewString, Logger: logger.Named("nodetoken"),
	})
	signer := identity.New(identity.Config{Keys: s.ring, Region: cfg.Region, Issuer: cfg.Identities.Issuer, Algorithm: cfg.Identities.Algorithm, NewID: uuid.NewString})
	s.dispatch = dispatch.New(dispatch.Config{
		Tokens: tokens, Identities: signer, Store: s.store, Raft: s.log, ServerID: s.who.ID, Leader: s.peers.ForSessions(), Peers: s.peers, NewID: uuid.NewString, Logger: logger,
		Volumes: s.claimVolume,
		TTL:     cfg.HeartbeatTTL, Grace: cfg.HeartbeatGrace, MaxBeats: cfg.MaxHeartbeats, FailoverTTL: cfg.FailoverTTL, Region: cfg.Region,
		Addresses: s.joiner.Addresses, PluginFile: s.mirror.Open, OpenVariable: s.openVariable,
	})
	s.peers.Answer(s.dispatch)
	s.term = term.Beginner{Log: s.log, NewID: uuid.NewString, Begun: s.dispatch.Begin}
	s.controls = control.NewLoops(s.store, s.log, uuid.NewString, logger.Named("control"))
	s.history = history.New(history.Config{
		Dir: cfg.dir("history"), MaxAge: cfg.History.MaxAge, MaxBytes: cfg.History.MaxBytes, Reserve: 2 * consensus.Reserve(cfg.Dev), Server: s.who.ID,
		Logger: logger.Named("history"),
	}, s.store)
	s.endpoint = endpoint.New(endpoint.Config{
		Store: s.store, Raft: s.log, Region: cfg.Region, Nodes: s.dispatch.Node, LocalNode: cfg.LocalNode,
		CollectGarbage: s.collectGarbage, Address: cfg.Address, Datacenter: cfg.Datacenter, Keyring: s.ring, Tokens: tokens, Issuer: cfg.Identities.Issuer, RSA: cfg.Identities.Algorithm == identity.RS256,
		Admit: s.admit, Lanes: s.lanes, History: s.history, Jobs: cfg.Jobs, Consul: cfg.Consul, PluginRegistry: cfg.PluginRegistry, PluginFiles: s.mirror, Autopilot: s.pilot.Configuration,
	})
	s.claims = claims.New(claims.Config{Store: s.store, Log: s.log, Drivers: endpoint.CSIDrivers{Endpoint: s.endpoint}, Logger: logger.Named("claims")})
	// After a restore the history continues from the snapshot. The new term distinguishes
	// it from what nodes saw after the snapshot.
	s.snapshots = snapshots.New(snapshots.Config{DataDir: cfg.DataDir, Raft: s.raft, Store: s.store, Level: cfg.Level, Opens: s.opens, Restored: s.term.Once})
	s.backups = s.newBackups()
}

// Start starts the server. WaitLeader reports when there is a leader.
func (s *Server) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	keeper := &keyshare.Keeper{Store: s.store, Ring: s.ring, Announce: s.announceKey, Logger: s.cfg.Logger.Named("keyring")}
	s.work.Go(func() { s.dispatch.Run(ctx) })
	s.work.Go(func() { s.raft.WhileLeading(ctx, s.lead) })
	s.work.Go(func() { s.who.KeepOnceMember(ctx, s.raft, s.cfg.joins(), s.cfg.Logger) })
	s.work.Go(func() { s.joiner.Run(ctx) })
	s.work.Go(func() { s.mirror.RunSweeps(ctx) })
	s.work.Go(func() { s.history.Run(ctx) })
	if s.cfg.joins() {
		s.work.Go(func() { s.mirror.RunCopies(ctx) })
	}
	s.work.Go(func() { keeper.Run(ctx) })
}

// Close stops everything, in reverse order.
func (s *Server) Close() error {
	if s.cancel != nil {
		s.cancel()
	}
	s.work.Wait()
	return errors.Join(s.joiner.Close(), s.peers.Close(), s.raft.Close())
}
