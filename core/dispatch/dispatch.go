// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"crypto/subtle"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/nodeevals"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// DefaultTTL is the default lease: how long a node counts as alive after a heartbeat.
const DefaultTTL = 8 * time.Second

// DefaultGrace is the default time after the end of its lease until a silent node is
// marked down. Its allocs are then replaced, which is worse than waiting for an agent
// or a machine that is slow for a while.
const DefaultGrace = 30 * time.Second

// AwayTTL is the lease of a node whose agent has announced a restart: time for an
// upgrade, or for a reboot.
const AwayTTL = time.Minute

// Raft is the part of consensus that dispatch uses.
type Raft interface {
	propose.Log
	VerifyLeader(ctx context.Context) error
}

// Config holds the dependencies and settings of a Dispatcher. All fields except
// Region, Addresses, NodeEvals, TTL and Now are required.
type Config struct {
	Store *state.Store
	Raft  Raft
	// NewID generates the id of an eval.
	NewID func() string
	// NodeEvals returns the evals that a change of a node requires; nil means
	// nodeevals.Of.
	NodeEvals func(view *state.View, node *model.Node, now time.Time) []*model.Evaluation
	// OpenVariable decrypts a stored variable.
	OpenVariable func(view *state.View, row *model.Variable) (items map[string]string, err error)
	// PluginFile opens an uploaded file by its digest.
	PluginFile func(digest string) (io.ReadCloser, error)
	// Region is the servers' region; nodes of other regions are refused. "" accepts
	// all.
	Region string
	// Addresses returns the servers' addresses for nodes; nil means none.
	Addresses func() []string
	// TTL is the lease of a node; 0 means DefaultTTL.
	TTL time.Duration
	// MaxBeats limits the heartbeats of all nodes per second by granting longer
	// leases; 0 means no limit.
	MaxBeats float64
	// FailoverTTL is the minimum time that nodes have to send a heartbeat to a new
	// leader.
	FailoverTTL time.Duration
	// Grace is the time after the end of its lease until a silent node is marked down;
	// 0 means none.
	Grace time.Duration
	// Now is the clock; nil means time.Now.
	Now    func() time.Time
	Logger hclog.Logger
}

// Dispatcher holds the sessions of nodes. It serves nodes while Run runs.
type Dispatcher struct {
	cfg     Config
	logger  hclog.Logger
	updates chan *updateRequest
	schemas chan struct{} // capacity 1: held while schemas are stored

	mu       sync.Mutex
	sessions map[string]*session  // by node id
	leases   map[string]time.Time // by node id: end of its lease; nil unless this server is the leader
	away     map[string]bool      // by node id: its agent has announced a restart
	amnesty  time.Time            // no lease ends before this; see grantAll
	holders  map[string]holder    // by node id: the agent process that acts as the node
	term     string               // term in which this server is the leader; see Begin
}

var (
	_ rpc.Servers    = (*Dispatcher)(nil)
	_ rpc.Doorkeeper = (*Dispatcher)(nil)
)

// New returns a Dispatcher.
func New(cfg Config) *Dispatcher {
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NodeEvals == nil {
		cfg.NodeEvals = func(view *state.View, node *model.Node, now time.Time) []*model.Evaluation {
			return nodeevals.Of(view, node, now, cfg.NewID)
		}
	}
	if cfg.Addresses == nil {
		cfg.Addresses = func() []string { return nil }
	}
	return &Dispatcher{
		cfg:      cfg,
		logger:   cfg.Logger.Named("dispatch"),
		updates:  make(chan *updateRequest),
		schemas:  make(chan struct{}, 1),
		sessions: map[string]*session{},
		holders:  map[string]holder{},
		away:     map[string]bool{},
	}
}

// Run pushes assignments and commits updates until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { d.follow(ctx) })
	work.Go(func() { d.commitUpdates(ctx) })
	work.Wait()
}

// Node returns an attached node, for calls to it.
func (d *Dispatcher) Node(nodeID string) (rpc.Node, error) {
	d.mu.Lock()
	s := d.sessions[nodeID]
	d.mu.Unlock()
	if s != nil {
		return s.node, nil
	}
	if d.cfg.Store.View().NodeByID(nodeID) == nil {
		return nil, errdefs.NotFoundf("Unknown node %q", nodeID)
	}
	return nil, errdefs.Unavailablef("No path to node %q: it has no session with this server; see its status, and retry when it is ready", nodeID)
}

// propose commits a command.
func (d *Dispatcher) propose(ctx context.Context, cmd fsm.Command) (uint64, error) {
	return propose.Bounded(ctx, d.cfg.Raft, cmd)
}

// known returns the node that id authenticates, if the calling process may act as it.
func (d *Dispatcher) known(view *state.View, id rpc.Identity) (*model.Node, error) {
	node, err := identify(view, id)
	if err != nil {
		return nil, err
	}
	return node, d.claim(id, d.cfg.Now())
}

// Identify implements rpc.Doorkeeper.
func (d *Dispatcher) Identify(id rpc.Identity) error {
	_, err := identify(d.cfg.Store.View(), id)
	return err
}

// identify returns the node that id authenticates.
func identify(view *state.View, id rpc.Identity) (*model.Node, error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	node := view.NodeByID(id.NodeID)
	if node == nil {
		return nil, errdefs.NotFoundf("node %q is not registered; register it first", id.NodeID)
	}
	if !sameSecret(node.SecretID, id.SecretID) {
		return nil, wrongSecret(id.NodeID)
	}
	if err := sameCluster(view, id.Seen.ClusterID); err != nil {
		return nil, err
	}
	return node, nil
}

// sameCluster rejects a node of another cluster.
func sameCluster(view *state.View, nodes string) error {
	if ours := view.Cluster().At(0).ClusterID; nodes != "" && nodes != ours {
		return rpc.OtherCluster(nodes, ours)
	}
	return nil
}

// Begin reports that this server is the leader in a term whose first entry is applied
// here; "" means that it is no longer the leader. It repeats all assignments to the
// nodes, which the leader can now confirm.
func (d *Dispatcher) Begin(termID string) {
	d.mu.Lock()
	d.term = termID
	d.mu.Unlock()
	if termID != "" {
		d.resyncAll()
	}
}

func sameSecret(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func wrongSecret(nodeID string) error {
	return errdefs.PermissionDeniedf("the secret is not that of node %q: another machine uses its id, or its data directory was copied; give one of them a new node id", nodeID)
}
