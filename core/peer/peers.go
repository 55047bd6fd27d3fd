// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Consensus is the part of core/consensus that is needed here.
type Consensus interface {
	// Leads reports whether this server leads and has applied all earlier commits.
	Leads() bool
	// LeaderChanged returns a channel that is closed at the next change of Leader or Leads.
	LeaderChanged() <-chan struct{}
	// CaughtUp reports whether this server has applied everything that was committed before
	// it started.
	CaughtUp() bool
}

// Config configures Peers. All fields except TLS and Dial are required.
type Config struct {
	// ID is this server's id.
	ID string
	// Consensus tells whether this server leads.
	Consensus Consensus
	// Leader returns the id and the address ("HOST:PORT") of the leader that this server
	// knows; "" if there is none.
	Leader func() (id, address string)
	// Address returns the address of a member of the cluster, "" if there is none.
	Address func(id string) string
	// Reach returns once this server's state is at an index or above it: see
	// state.Store.Reach.
	Reach func(ctx context.Context, index uint64) error
	// AcceptKey stores the public key of a server, while this one leads.
	AcceptKey func(ctx context.Context, key *model.ServerKey) error
	// FilePart returns a part of a plugin file of this server. NotFound: it has none.
	FilePart func(digest string, offset int64) ([]byte, error)
	// TakeFile makes this server have a plugin file that another one has.
	TakeFile func(ctx context.Context, server, digest string) error
	// TLS is the configuration of connections to other servers; nil means no TLS.
	TLS *tls.Config
	// Dial connects to an address; nil means TCP.
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Logger hclog.Logger
}

// mostClients is the number of addresses whose connections are kept. A cluster has fewer
// servers; the rest are earlier addresses of servers.
const mostClients = 32

// Peers are the other servers of the cluster.
type Peers struct {
	cfg    Config
	logger hclog.Logger
	// sessions answers calls to the leader on this server; see Answer.
	sessions Sessions
	http     *http.Transport
	open     chan struct{} // holds a token for each forwarded HTTP request
	kept     atomic.Int64  // bytes of bodies that are kept for another attempt
	floor    atomic.Uint64 // see CatchUp
	reaching time.Duration // the constant; a test waits longer

	mu      sync.Mutex
	clients map[string]*client // by address
	closed  bool
}

// client is the connection to one address.
type client struct {
	*rpc.Client
	used time.Time
}

// New returns Peers. It connects to nobody until there is something to ask.
func New(cfg Config) *Peers {
	p := &Peers{cfg: cfg, logger: cfg.Logger.Named("peer"), clients: map[string]*client{}, open: make(chan struct{}, mostForwarded), reaching: reaching}
	p.http = p.transport()
	return p
}

// Leads reports whether this server leads and has applied all earlier commits.
func (p *Peers) Leads() bool { return p.cfg.Consensus.Leads() }

// Client returns the connection to a server. It is made when it is first used, and closed
// while nothing uses it.
func (p *Peers) Client(address string) (*rpc.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errdefs.Unavailablef("this server is ending")
	}
	if c := p.clients[address]; c != nil {
		c.used = time.Now()
		return c.Client, nil
	}
	p.forget()
	c, err := rpc.DialPeer(address, p.cfg.TLS, p.cfg.Dial)
	if err != nil {
		return nil, err
	}
	p.clients[address] = &client{Client: c, used: time.Now()}
	return c, nil
}

// forget closes the connection that was used least recently, if there are too many.
func (p *Peers) forget() {
	if len(p.clients) < mostClients {
		return
	}
	oldest := ""
	for a, c := range p.clients {
		if oldest == "" || c.used.Before(p.clients[oldest].used) {
			oldest = a
		}
	}
	_ = p.clients[oldest].Close() // it fails only if it is closed already
	delete(p.clients, oldest)
}

// Close closes all connections, which fails the calls on them.
func (p *Peers) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for a, c := range p.clients {
		errs = append(errs, c.Close())
		delete(p.clients, a)
	}
	return errors.Join(errs...)
}

const (
	// catchUp is how long CatchUp waits.
	catchUp = 2 * time.Second
	// startPause is the interval at which a starting server checks whether it has applied
	// all earlier commits, because raft has no event for it. Once it has, the check ends
	// for good.
	startPause = 10 * time.Millisecond
)

// saw records an index that this server has shown to a client.
func (p *Peers) saw(index uint64) {
	for {
		old := p.floor.Load()
		if index <= old || p.floor.CompareAndSwap(old, index) {
			return
		}
	}
}

// CatchUp waits until this server's state contains everything that was committed before the
// server started, and everything that clients saw through it from the leader. So an index
// never goes backwards for a client, and a client sees its own writes. It gives up after a
// short time, and at once without a leader: a server that is cut off must still answer
// stale reads.
func (p *Peers) CatchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	p.start(ctx)
	index := p.floor.Load()
	if p.reached(ctx, index) {
		return
	}
	reached := make(chan struct{})
	go func() {
		defer close(reached)
		_ = p.cfg.Reach(ctx, index) // in time or not, the read is answered
	}()
	for {
		changed := p.cfg.Consensus.LeaderChanged()
		if id, _ := p.cfg.Leader(); id == "" {
			cancel()
			changed = nil
		}
		select {
		case <-reached:
			return
		case <-changed:
		}
	}
}

// reached reports whether this server's state is at an index now.
func (p *Peers) reached(ctx context.Context, index uint64) bool {
	now, cancel := context.WithCancel(ctx)
	cancel()
	return p.cfg.Reach(now, index) == nil
}

// start waits until this server has applied everything that was committed before it
// started.
func (p *Peers) start(ctx context.Context) {
	if p.cfg.Consensus.CaughtUp() {
		return
	}
	tick := time.NewTicker(startPause)
	defer tick.Stop()
	for !p.cfg.Consensus.CaughtUp() {
		if id, _ := p.cfg.Leader(); id == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
