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
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// DefaultTTL is how long a node counts as alive after it was last heard of.
const DefaultTTL = 8 * time.Second

// DefaultGrace is how much later than its lease a node may be heard of, where an
// operator says nothing else: its allocs are replaced then, which is worse than to wait
// for an agent or a machine that is slow for a while.
const DefaultGrace = 30 * time.Second

// AwayTTL is the lease of a node whose agent has said that it ends and will be back:
// time for an upgrade, or for the machine to start again.
const AwayTTL = time.Minute

// proposeTimeout bounds the wait for a Command to be committed.
const proposeTimeout = 30 * time.Second

// Raft is what dispatch needs of consensus.
type Raft interface {
	Propose(ctx context.Context, command []byte) (index uint64, answer any, err error)
	VerifyLeader(ctx context.Context) error
}

// Config is what a Dispatcher works with. All fields but Region, Addresses,
// TTL and Now are needed.
type Config struct {
	Store *state.Store
	Raft  Raft
	// NewID mints the id of an eval.
	NewID func() string
	// NodeEvals makes the evals that a change of a node's status asks for.
	NodeEvals func(view *state.View, node *model.Node, trigger string, now time.Time) []*model.Evaluation
	// OpenVariable decrypts a stored variable.
	OpenVariable func(view *state.View, row *model.Variable) (items map[string]string, err error)
	// PluginFile opens an uploaded file by its digest.
	PluginFile func(digest string) (io.ReadCloser, error)
	// Region is the servers'; nodes of another one are refused. "" takes all.
	Region string
	// Addresses lists the servers for nodes; nil is none.
	Addresses func() []string
	// TTL is the lease of a node; 0 means DefaultTTL.
	TTL time.Duration
	// MaxBeats bounds the beats of all nodes in a second by longer leases; 0 does not.
	MaxBeats float64
	// FailoverTTL is how long nodes have at least to be heard of by a new leader.
	FailoverTTL time.Duration
	// Grace is how much later than its lease a node may be heard of; 0 is not at all.
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
	schemas chan struct{} // of size 1: held while schemas are stored

	mu       sync.Mutex
	sessions map[string]*session  // by node id
	leases   map[string]time.Time // by node id: when its lease ends; nil unless this server leads
	away     map[string]bool      // by node id: its agent has said that it will be back
	amnesty  time.Time            // no lease ends before; see grantAll
	holders  map[string]holder    // by node id: the agent that is the node
	term     string               // that this server leads in; see Begin
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

// Node returns the attached node, to call it.
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
	data, err := fsm.Encode(cmd)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	index, _, err := d.cfg.Raft.Propose(ctx, data)
	return index, err
}

// known returns the node that id proves to be, for the process that speaks.
func (d *Dispatcher) known(view *state.View, id rpc.Identity) (*model.Node, error) {
	node, err := identify(view, id)
	if err != nil {
		return nil, err
	}
	return node, d.claim(id, d.cfg.Now())
}

// Identify tells whether id is that of a node: see rpc.Doorkeeper.
func (d *Dispatcher) Identify(id rpc.Identity) error {
	_, err := identify(d.cfg.Store.View(), id)
	return err
}

// identify returns the node that id proves to be.
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

// sameCluster refuses a node that belongs to another cluster.
func sameCluster(view *state.View, nodes string) error {
	if ours := view.Cluster().At(0).ClusterID; nodes != "" && nodes != ours {
		return rpc.OtherCluster(nodes, ours)
	}
	return nil
}

// Begin tells that this server leads in a term whose first entry is applied here,
// "" that it does not lead any more. What nodes have been told meanwhile is told
// again, now that the leader can vouch for it.
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
