// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
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
const DefaultTTL = 9 * time.Second

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

// Config holds the dependencies and settings of a Dispatcher. Store, Raft, NewID,
// OpenVariable, PluginFile and Logger are required.
type Config struct {
	Store *state.Store
	Raft  Raft
	// ServerID is the id of this server. It is required if there are others.
	ServerID string
	// Leader is the server that leads; nil means that this server is the only one.
	Leader Leader
	// Peers reaches nodes that other servers hear; nil means that there are none.
	Peers Peers
	// MaxReturns limits how many nodes per second may begin to be heard by this server;
	// 0 means DefaultMaxReturns.
	MaxReturns float64
	// NewID generates the id of an eval.
	NewID func() string
	// NodeEvals returns the evals that a change of a node requires; nil means
	// nodeevals.Of.
	NodeEvals func(view *state.View, node *model.Node, now time.Time) []*model.Evaluation
	// OpenVariable decrypts a stored variable.
	OpenVariable func(view *state.View, row *model.Variable) (items map[string]string, err error)
	// PluginFile opens an uploaded file by its digest. It may fetch it from another server.
	PluginFile func(ctx context.Context, digest string) (io.ReadCloser, error)
	// Tokens are the tokens of nodes; nil means that nodes have none.
	Tokens Tokens
	// Identities are the tokens of tasks; nil means that tasks get none.
	Identities Identities
	// Volumes are the volumes of type csi; nil means that there are none.
	Volumes Volumes
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

// Tokens issues and checks the tokens of nodes. *nodetoken.Tokens implements it.
type Tokens interface {
	// Admit decides whether an unknown node may register. PermissionDenied: it may not.
	Admit(view *state.View, node *model.Node, now time.Time) error
	// Identity returns a new identity for a registered node with a token, or "" if it needs
	// none. PermissionDenied: the token belongs to another node.
	Identity(view *state.View, node *model.Node, shown string, now time.Time) (string, error)
}

// Dispatcher holds the sessions of nodes with one server. It serves nodes while Run runs,
// and keeps the roll of all nodes while Lead runs.
type Dispatcher struct {
	cfg     Config
	leader  Leader
	logger  hclog.Logger
	updates chan *updateRequest
	schemas chan struct{} // capacity 1: held while schemas are stored
	poke    chan struct{} // capacity 1: the leader must learn of something soon
	shared  confirmations
	moves   chan struct{} // limits concurrent moves of data: see AllocData

	addresses addresses // of the servers, for leases

	mu       sync.Mutex
	foreign  time.Time           // when an alloc of another node was last logged: see sayForeign
	sessions map[string]*session // by node id
	hearing  *hearing
	returns  returns
	joins    *joins
	acked    chan struct{} // closed and replaced when the leader has acknowledged a report
	awakeAt  time.Time     // when this process certainly ran
	roll     *roll         // nil unless this server is the leader
	term     string        // term in which this server is the leader; see Begin
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
	if cfg.ServerID == "" {
		cfg.ServerID = "this server" // a roll needs a name
	}
	if cfg.MaxReturns == 0 {
		cfg.MaxReturns = DefaultMaxReturns
	}
	now := cfg.Now()
	d := &Dispatcher{
		cfg:      cfg,
		leader:   cfg.Leader,
		logger:   cfg.Logger.Named("dispatch"),
		updates:  make(chan *updateRequest),
		schemas:  make(chan struct{}, 1),
		poke:     make(chan struct{}, 1),
		sessions: map[string]*session{},
		joins:    newJoins(),
		hearing:  newHearing(cfg.ServerID, rand.Text(), lateAfter(cfg.TTL), now),
		returns:  newReturns(cfg.MaxReturns, now),
		acked:    make(chan struct{}),
		moves:    make(chan struct{}, mostMoves),
		awakeAt:  now,
	}
	if d.leader == nil {
		d.leader = d.Leading()
	}
	return d
}

// Run pushes assignments, commits updates and reports to the leader until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { d.follow(ctx) })
	work.Go(func() { d.commitUpdates(ctx) })
	work.Go(func() { d.keepReporting(ctx) })
	work.Go(func() { d.stayAwake(ctx) })
	work.Wait()
}

// holderTimeout limits the question which server hears a node.
const holderTimeout = 5 * time.Second

// Attached returns a node that is attached to this server, for calls to it.
func (d *Dispatcher) Attached(nodeID string) (node rpc.Node, attached bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.sessions[nodeID]; s != nil {
		return s.node, true
	}
	return nil, false
}

// sessionWait is how long a call waits for the session of a node that is here: one that has
// just registered, or whose server has just ended, has none for a moment.
const sessionWait = 2 * time.Second

// sessionAgain is the time between two looks for such a session.
const sessionAgain = 50 * time.Millisecond

// Node returns a node that is attached to this server or to another one, for calls to it.
// NotFound: there is no such node. Unavailable: it has no session.
func (d *Dispatcher) Node(nodeID string) (rpc.Node, error) {
	for begun := time.Now(); ; time.Sleep(sessionAgain) {
		node, err := d.reach(nodeID)
		if !errdefs.IsUnavailable(err) || !here(d.cfg.Store.View().NodeByID(nodeID)) || time.Since(begun) >= sessionWait {
			return node, err
		}
	}
}

// here reports whether a node has registered and has not been silent since.
func here(n *model.Node) bool {
	return n != nil && (n.Status == model.NodeStatusInit || n.Status == model.NodeStatusReady)
}

// reach is Node without waiting.
func (d *Dispatcher) reach(nodeID string) (rpc.Node, error) {
	if node, attached := d.Attached(nodeID); attached {
		return node, nil
	}
	if d.cfg.Store.View().NodeByID(nodeID) == nil {
		return nil, errdefs.NotFoundf("Unknown node %q", nodeID)
	}
	ctx, cancel := context.WithTimeout(context.Background(), holderTimeout)
	defer cancel()
	server, err := d.leader.Holder(ctx, nodeID)
	switch {
	case errdefs.IsNotFound(err), err == nil && (server == d.cfg.ServerID || d.cfg.Peers == nil):
		return nil, errdefs.Unavailablef("No path to node %q: it has no session with a server; see its status, and retry when it is ready", nodeID)
	case err != nil:
		return nil, errdefs.Unavailablef("No path to node %q: it has no session with this server, and the leader does not name a server that has one; retry: %w", nodeID, err)
	}
	return d.cfg.Peers.Node(server, nodeID)
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
	return node, d.claim(heardAs(id), d.cfg.Now())
}

// heardAs returns the part of a node's identity that the leader learns.
func heardAs(id rpc.Identity) HeardNode {
	return HeardNode{NodeID: id.NodeID, Instance: id.Instance, Session: id.Session}
}

// claim refuses an agent process while another one with the same identity was heard of
// within a lease. Otherwise two agents with copies of one data directory would replace each
// other again and again, and each would report on the other's allocs. A process gives up
// the node when its session ends.
func (d *Dispatcher) claim(who HeardNode, now time.Time) error {
	lease := d.lease()
	d.mu.Lock()
	defer d.mu.Unlock()
	if other := d.hearing.claim(who, now, lease); other != nil {
		return actsTwice(who.NodeID, fmt.Sprintf("it was heard of %s ago", now.Sub(other.at).Round(time.Millisecond)))
	}
	return nil
}

func actsTwice(nodeID, heard string) error {
	return errdefs.AlreadyExistsf("another agent acts as node %q, %s: two machines have copies of one data directory; "+
		"stop one of them, and remove the folder \"client\" of its data directory so that it gets an id of its own", nodeID, heard)
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
	return errdefs.PermissionDeniedf("the secret does not belong to node %q: another machine uses its id, or its data directory was copied; give one of them a new node id", nodeID)
}
