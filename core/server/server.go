// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package server composes the server side of an agent: it calls constructors in the
// order of their dependencies and closes in reverse, without logic of its own. Only
// cmd/drover and tests may import it. It never imports the node side.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/auth/nodetoken"
	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/control/drain"
	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/control/periodic"
	"github.com/drover-project/drover/core/control/plugins"
	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/membership"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/peer"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/pluginfiles"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/core/worker"
)

// Introduction says how new nodes are introduced: see nodetoken.Config.
type Introduction struct {
	Enforcement        string
	DefaultTTL, MaxTTL time.Duration
}

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
	Gossip *Gossip
	// Role is how this server votes.
	Role pilot.Role
	// Autopilot is the initial configuration of autopilot; nil means the defaults.
	Autopilot *model.AutopilotConfiguration
	// PeerDial makes these connections; nil means TCP.
	PeerDial func(ctx context.Context, address string) (net.Conn, error)
	// Workers is the number of evaluations that are scheduled concurrently.
	Workers int
	GC      gc.Thresholds
	// RootKeys are the limits of the age of root keys; the zero value means the defaults.
	RootKeys keys.Limits
	Jobs     endpoint.JobLimits
	// Scheduler is the initial scheduler configuration of a new cluster; nil means the
	// built-in one.
	Scheduler *model.SchedulerConfiguration
	// MaxHeartbeats and FailoverTTL are passed to core/dispatch.
	MaxHeartbeats float64
	FailoverTTL   time.Duration
	// HeartbeatTTL is the lease of a node; 0 means the default of core/dispatch.
	HeartbeatTTL time.Duration
	// Introduction says which new nodes are admitted.
	Introduction Introduction
	// HeartbeatGrace is how long after its lease a silent node is marked down.
	HeartbeatGrace    time.Duration
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	TrailingLogs      uint64
	// PluginRegistry allows clients to change the registry of plugins.
	PluginRegistry bool
	LocalNode      func() string
	// Release is this server's release, for servers that are too old for what it writes.
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

// Server is the server side of an agent.
type Server struct {
	cfg       Config
	who       identity
	members   atomic.Pointer[membership.Membership] // nil without gossip
	pilot     *pilot.Pilot
	store     *state.Store
	raft      *consensus.Node
	peers     *peer.Peers
	broker    *queue.Broker
	blocked   *queue.Blocked
	applier   *plan.Applier
	dispatch  *dispatch.Dispatcher
	controls  *control.Loops
	ring      *keyring.Keyring
	endpoint  *endpoint.Endpoint
	files     *pluginfiles.Store // nil without a data directory
	started   time.Time
	cancel    context.CancelFunc
	work      sync.WaitGroup
	leading   atomic.Bool
	firstTerm chan struct{}
	firstOnce sync.Once
	failed    chan error // capacity 1
	workers   *pool
	snapshots sync.Mutex // held while a snapshot is written or restored
	digest    digest
}

// ids generates UUIDs.
type ids struct{}

// NewID returns a UUID.
func (ids) NewID() string { return uuid.NewString() }

// New opens the log and constructs everything on top of it.
func New(cfg Config) (*Server, error) {
	if cfg.Level == 0 {
		cfg.Level = fsm.Level
	}
	raftDir := ""
	if cfg.DataDir != "" {
		raftDir = filepath.Join(cfg.DataDir, "raft")
	}
	who, err := readIdentity(cfg.DataDir, raftDir, cfg.Address)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, who: who, store: state.New(), started: time.Now(), firstTerm: make(chan struct{}), failed: make(chan error, 1), workers: newPool(cfg.Workers)}
	if s.cfg.Announced == nil && cfg.Gossip != nil {
		s.cfg.Announced = s.announced
	}
	s.raft, err = consensus.Open(consensus.Config{
		NodeID: who.id, DataDir: raftDir, Expected: who.known, Dev: cfg.Dev, Machine: fsm.NewAt(s.cfg.Level, s.store, cfg.Logger.Named("fsm")), Logger: cfg.Logger,
		Listener: cfg.Raft.Listener, Advertise: cfg.Address, Dial: cfg.Raft.Dial, HeartbeatTimeout: cfg.Raft.HeartbeatTimeout, Lookup: s.lookup,
		Fatal:      s.fail,
		Multiplier: cfg.Raft.Multiplier, SnapshotThreshold: cfg.SnapshotThreshold, SnapshotInterval: cfg.SnapshotInterval, TrailingLogs: cfg.TrailingLogs,
	})
	if err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, s.raft.Close())
	}
	s.ring, err = keyring.Open(cfg.DataDir, who.id)
	if err != nil {
		return nil, errors.Join(err, s.raft.Close())
	}
	if cfg.DataDir != "" {
		s.files, err = pluginfiles.Open(filepath.Join(cfg.DataDir, "plugins"), pluginfiles.DefaultMaxFile, pluginfiles.DefaultMaxTotal)
		if err != nil {
			return nil, errors.Join(err, s.raft.Close())
		}
	}
	s.peers = s.newPeers()
	if cfg.Autopilot == nil {
		cfg.Autopilot = model.DefaultAutopilot()
	}
	s.pilot = pilot.New(pilot.Config{ID: who.id, Raft: s.raft, Store: s.store, Log: s.log(), Initial: cfg.Autopilot, Leads: s.Leads, Logger: cfg.Logger.Named("autopilot")})
	s.broker = queue.NewBroker(queue.Config{Clock: queue.WallClock{}})
	s.blocked = queue.NewBlocked(s.broker.Enqueue)
	s.applier = plan.NewApplier(func() plan.View { return s.store.View() }, s.log(), time.Now)
	tokens := nodetoken.New(nodetoken.Config{
		Keys: s.ring, Region: cfg.Region, Enforcement: cfg.Introduction.Enforcement, DefaultTTL: cfg.Introduction.DefaultTTL, MaxTTL: cfg.Introduction.MaxTTL,
		NewID: uuid.NewString, Logger: cfg.Logger.Named("nodetoken"),
	})
	s.dispatch = dispatch.New(dispatch.Config{
		Tokens: tokens,
		Store:  s.store, Raft: s.log(), ServerID: who.id, Leader: s.peers.ForSessions(), Peers: s.peers, NewID: uuid.NewString, Logger: cfg.Logger, TTL: cfg.HeartbeatTTL, Grace: cfg.HeartbeatGrace, MaxBeats: cfg.MaxHeartbeats, FailoverTTL: cfg.FailoverTTL, Region: cfg.Region,
		Addresses:  s.Addresses,
		PluginFile: func(ctx context.Context, digest string) (io.ReadCloser, error) { return s.mirror().Open(ctx, digest) },
		OpenVariable: func(v *state.View, row *model.Variable) (map[string]string, error) {
			return s.ring.OpenRow(v.RootKeyByID(row.KeyID), row)
		},
	})
	s.peers.Answer(s.dispatch)
	s.controls = control.NewLoops(s.store, s.log(), uuid.NewString, cfg.Logger.Named("control"))
	s.endpoint = endpoint.New(endpoint.Config{
		Store: s.store, Raft: raft{s.log()}, Region: cfg.Region, Nodes: s.dispatch.Node, LocalNode: cfg.LocalNode,
		CollectGarbage: s.collectGarbage, Address: cfg.Address, Datacenter: cfg.Datacenter, Keyring: s.ring, Tokens: tokens,
		Jobs: cfg.Jobs, PluginRegistry: cfg.PluginRegistry, PluginFiles: s.files, Autopilot: s.pilot.Configuration,
	})
	if err := s.startGossip(); err != nil {
		return nil, errors.Join(err, s.raft.Close())
	}
	return s, nil
}

// Start starts the server. WaitLeader reports when there is a leader.
func (s *Server) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.work.Go(func() { s.dispatch.Run(ctx) })
	s.work.Go(func() { s.raft.WhileLeading(ctx, s.lead) })
	s.work.Go(func() { s.becomeMember(ctx) })
	s.work.Go(func() { s.gossip(ctx) })
	s.work.Go(func() { s.mirror().RunSweeps(ctx) })
	if s.joins() {
		s.work.Go(func() { s.mirror().RunCopies(ctx) })
	}
	s.work.Go(func() { s.keeper().Run(ctx) })
}

// lead runs what only the leader does. It returns when ctx has ended and all of it has
// stopped.
func (s *Server) lead(ctx context.Context) {
	if err := s.ring.Check(s.store.View().RootKeys(), s.store.View().ServerKeyByID(s.ID())); err != nil {
		s.fail(err)
		return
	}
	var term sync.WaitGroup
	feeder := &worker.Feeder{Store: s.store, Broker: s.broker, Blocked: s.blocked, Logger: s.cfg.Logger.Named("feeder")}
	if err := s.beginTerm(ctx); err != nil {
		s.cfg.Logger.Warn("this server leads, and could not write so to the log: until it can, no node stops what this server does not know", "error", err)
		term.Go(func() { s.keepBeginning(ctx) })
	}
	defer s.dispatch.Begin("")
	raiser := s.raiser()
	if err := raiser.Once(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Debug("the capability level is not raised yet", "error", err)
	}
	term.Go(func() { raiser.Run(ctx) })
	term.Go(func() { s.sharer().Run(ctx) })
	term.Go(func() { s.broker.Run(ctx) })
	term.Go(func() { feeder.Run(ctx) })
	term.Go(func() { s.applier.Run(ctx) })
	term.Go(func() { s.dispatch.Lead(ctx) })
	term.Go(func() { s.pilot.Run(ctx) })
	term.Go(func() { s.yieldIfFull(ctx) })
	term.Go(func() {
		s.controls.Run(ctx, deploy.Controller{}, drain.Controller{}, periodic.Controller{}, plugins.Controller{}, keys.Controller{}, gc.Controller{Thresholds: s.cfg.GC})
	})
	term.Go(func() {
		s.workers.run(ctx, uuid.NewString, func(ctx, taking context.Context) { s.worker().Run(ctx, taking) })
	})
	term.Go(func() { s.renewRootKeys(ctx) })
	term.Go(func() { s.worker().RunFailed(ctx) })
	term.Go(func() {
		if err := s.endpoint.EnsureKey(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("the first key of the keyring could not be made; the first variable makes it", "error", err)
		}
	})
	if err := s.endpoint.BeginWithScheduler(ctx, s.cfg.Scheduler); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("the cluster does not begin with default_scheduler_config; set it with drover operator scheduler set-config", "error", err)
	}
	s.leading.Store(true)
	defer s.leading.Store(false)
	s.firstOnce.Do(func() { close(s.firstTerm) })
	term.Wait()
}

func (s *Server) worker() *worker.Worker {
	return worker.New(worker.Config{
		Broker: s.broker, Blocked: s.blocked, Applier: s.applier, Log: s.log(),
		View: func() worker.View { return s.store.View() }, WaitFor: worker.WaitForIndex(s.store),
		IDs: ids{}, Now: time.Now, Logger: s.cfg.Logger.Named("worker"),
	})
}

// Close stops everything, in reverse order.
func (s *Server) Close() error {
	if s.cancel != nil {
		s.cancel()
	}
	s.work.Wait()
	var err error
	if m := s.members.Load(); m != nil {
		err = m.Close()
	}
	return errors.Join(err, s.peers.Close(), s.raft.Close())
}

// fail reports why the server must be closed; only the first reason is reported.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// Failed returns a channel that receives an error when this server cannot continue and
// must be closed.
func (s *Server) Failed() <-chan error { return s.failed }

// ReadOnly returns why the server currently rejects writes, nil if it accepts them.
func (s *Server) ReadOnly() error { return s.raft.ReadOnly() }

// Endpoint returns the implementation of public requests.
func (s *Server) Endpoint() *endpoint.Endpoint { return s.endpoint }

// Sessions returns the server side of nodes' sessions.
func (s *Server) Sessions() rpc.Servers { return s.dispatch }

// ID returns the server's id, which does not change across restarts.
func (s *Server) ID() string { return s.who.id }

// Started returns when the server was started.
func (s *Server) Started() time.Time { return s.started }

// Pilot returns what steers the members of the cluster, for operators.
func (s *Server) Pilot() *pilot.Pilot { return s.pilot }

// Raft returns the consensus node, for operators.
func (s *Server) Raft() *consensus.Node { return s.raft }

// Stats returns counters of the server's parts.
func (s *Server) Stats() (broker queue.Stats, blocked int, controls map[string]control.Stats, rows map[string]int) {
	return s.broker.Stats(), s.blocked.Len(), s.controls.Stats(), s.store.View().Sizes()
}

// collectGarbage removes all ended objects now.
func (s *Server) collectGarbage(ctx context.Context) error {
	for _, cmd := range gc.Collect(s.store.View(), time.Now(), gc.Thresholds{}) {
		if _, err := propose.Commands(ctx, s.log(), cmd); err != nil {
			return err
		}
	}
	return nil
}

// raft adapts the consensus node for endpoints.
type raft struct{ gated }

// HasLeader reports whether a leader is known.
func (r raft) HasLeader() bool {
	_, known := r.Leader()
	return known
}
