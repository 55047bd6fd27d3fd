// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package session is a node's session with its servers: registration, heartbeats, reports
// of the node and assignments to it. It keeps which cluster the node belongs to, so that
// other servers or servers that have lost data end no task. It runs no alloc. Only
// core/agent and packages below it may import it.
package session

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/allocs"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	callTimeout = 30 * time.Second
	retryMin    = 100 * time.Millisecond
	retryMax    = 5 * time.Second
)

// Store keeps what a session must find again after a restart of the agent.
type Store interface {
	// Get returns NotFound if there is no value under the key.
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// Config is what a session needs from the beginning.
type Config struct {
	Servers rpc.Servers
	Store   Store
	// NodeID, SecretID and Instance identify the node and this process: see
	// rpc.Identity.
	NodeID, SecretID, Instance string
	// Intro is the token that introduces the node to its servers until it has an identity;
	// it may be "".
	Intro    string
	RetryMax time.Duration // longest pause between two attempts; 0 is 5 s
	Logger   hclog.Logger
}

// Allocs are the allocs of the node.
type Allocs interface {
	// Apply makes the node run what is assigned.
	Apply(ctx context.Context, x *rpc.Assignments, doubted bool, fetch allocs.Fetch) error
	// ForgetKnown has all allocs fetched again with the next assignments.
	ForgetKnown()
	// Unassigned counts the running allocs that a full set lacks.
	Unassigned(x *rpc.Assignments) int
}

// Updates is the buffer of reports on allocs.
type Updates interface {
	Retry()
	Told(digests map[string]uint64, full bool)
}

// Schemas are the schemas of the node's drivers.
type Schemas interface {
	// Wanted returns the schemas with the hashes, as far as they may be sent now.
	Wanted(hashes []string, now time.Time) [][]byte
	// Sent notes how sending them went.
	Sent(bodies [][]byte, err error, now time.Time)
}

// Parts are the parts of the node that a session connects with the servers.
type Parts struct {
	Node     func() *model.Node // as it is to be registered; the session copies it
	Handler  rpc.Node           // answers requests to the node
	Allocs   Allocs
	Updates  Updates
	Schemas  Schemas
	Releases func() // makes the node request the releases of the registry of plugins
}

// Session is the session of a node with its servers, over all connections.
type Session struct {
	cfg     Config
	parts   Parts
	contact contact
	cluster allegiance
	events  eventLog
	token   token
	stored  stored
	clock   clock

	keptMu sync.Mutex
	kept   []string // the servers on disk, sorted

	ready      chan struct{} // closed at the first registration
	registered sync.Once
	number     atomic.Uint64 // counts the sessions of this process
	trusted    chan struct{} // capacity 1: an operator has accepted the current servers
	changed    chan struct{} // capacity 1: the node has to register again
	refused    chan struct{} // capacity 1: updates were refused because the node is not ready
}

// New returns the session of a node and reads which cluster the node belongs to.
func New(ctx context.Context, cfg Config) (*Session, error) {
	if cfg.RetryMax == 0 {
		cfg.RetryMax = retryMax
	}
	s := &Session{
		cfg: cfg, ready: make(chan struct{}), trusted: make(chan struct{}, 1), changed: make(chan struct{}, 1), refused: make(chan struct{}, 1),
	}
	if err := s.cluster.load(ctx, cfg.Store); err != nil {
		return s, err
	}
	if err := s.token.load(ctx, cfg.Store, cfg.Intro); err != nil {
		return s, err
	}
	return s, s.loadServers(ctx)
}

// Bind gives the session the parts of the node. It is called once, before Run.
func (s *Session) Bind(parts Parts) { s.parts = parts }

// Ready is closed once the node has registered.
func (s *Session) Ready() <-chan struct{} { return s.ready }

// Identity is the header by which the node identifies itself in each call.
func (s *Session) Identity() rpc.Identity {
	return rpc.Identity{NodeID: s.cfg.NodeID, SecretID: s.cfg.SecretID, Instance: s.cfg.Instance, Session: s.number.Load(), Seen: s.cluster.point()}
}

// AddEvents adds events of the node, which servers hear of at the next registration.
func (s *Session) AddEvents(events []*model.NodeEvent) { s.events.add(events) }

// errTrusted ends a session, so that the node sends everything again in the next one.
var errTrusted = errdefs.Abortedf("an operator has agreed to the servers")

// Run keeps the node registered and attached until ctx ends. Each session may be with
// another server.
func (s *Session) Run(ctx context.Context) {
	pause, failures, lost := retryMin, 0, outage{}
	for ctx.Err() == nil {
		s.number.Add(1)
		lease, err := s.register(ctx)
		if failures++; err == nil {
			failures = 0
			lost.registered(s.cfg.Logger)
			began := time.Now()
			err = s.attached(ctx, lease)
			if time.Since(began) >= lasting {
				pause, lost = retryMin, outage{}
			}
		}
		if ctx.Err() != nil {
			return
		}
		if errdefs.IsConflict(err) {
			s.cluster.turnedAway()
		}
		s.contact.ended(err)
		if s.leave(err, failures) {
			// The next server is asked soon, but when all have been asked it is as if one
			// had failed again.
			if lost.moves++; lost.moves < len(s.mover().Known()) {
				pause = retryMin
			}
		}
		wait := pause/2 + rand.N(pause/2+1) // not all nodes at once
		if hint := errdefs.RetryAfter(err); hint > 0 {
			wait = min(hint, longestHint) + rand.N(retryMin)
		}
		lost.failed(s.cfg.Logger, err, wait)
		_ = sleep.For(ctx, wait)
		pause = min(2*pause, max(s.cfg.RetryMax, retryMin))
	}
}

func (s *Session) register(ctx context.Context) (rpc.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	node := s.parts.Node().Copy()
	events := s.events.unsent()
	node.Events, node.ClusterID, node.Session, node.Token = events, s.cluster.point().ClusterID, s.number.Load(), s.token.shown()
	sent := time.Now()
	lease, err := s.stored.send(ctx, s.cfg.Servers, node)
	answered := time.Now()
	if err == nil {
		err = s.cluster.answered(ctx, lease.ClusterID)
	}
	if err == nil {
		err = s.token.received(ctx, s.cfg.Store, lease.Identity)
	}
	if err != nil {
		return rpc.Lease{}, err
	}
	s.events.sent(events)
	s.contact.answered(lease)
	s.compareClocks(lease.Now, sent, answered)
	s.keepServers(ctx)
	s.registered.Do(func() {
		s.cfg.Logger.Info("node registered", "node_id", s.cfg.NodeID)
		close(s.ready)
	})
	s.parts.Releases() // after the registration the registry may assign something else
	s.parts.Updates.Retry()
	s.sendSchemas(ctx, lease)
	return lease, nil
}

// attached runs one session: it sends heartbeats and updates and acts on pushes, until
// one of the three ends.
func (s *Session) attached(ctx context.Context, lease rpc.Lease) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	box := &mailbox{wake: make(chan struct{}, 1)}
	var parts sync.WaitGroup
	parts.Go(func() { cancel(s.beat(ctx, lease)) })
	parts.Go(func() { cancel(s.act(ctx, box)) })
	cancel(s.cfg.Servers.Attach(ctx, s.Identity(), s.parts.Handler, box.put))
	parts.Wait()
	return context.Cause(ctx)
}

// beat sends heartbeats as the lease demands, and registers again when the node has changed
// or the servers require it.
func (s *Session) beat(ctx context.Context, lease rpc.Lease) error {
	timer := time.NewTimer(lease.BeatAfter())
	defer timer.Stop()
	failures := 0
	untold := false // servers did not hear of a change
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.trusted:
			return errTrusted
		case <-s.changed:
			lease, err = s.registerAgain(ctx, lease)
			untold = err != nil
		case <-s.refused:
			if lease, err = s.sendBeat(ctx, lease); err == nil {
				s.parts.Updates.Retry()
			}
		case <-timer.C:
			if untold || s.token.due(time.Now()) {
				lease, err = s.registerAgain(ctx, lease)
				untold = err != nil
			} else {
				lease, err = s.sendBeat(ctx, lease)
			}
			timer.Reset(lease.BeatAfter())
		}
		switch {
		case err == nil:
			failures = 0
		case errdefs.IsNotFound(err) || errdefs.IsFailedPrecondition(err) || errdefs.IsAlreadyExists(err) || errdefs.IsConflict(err) || s.shouldLeave(err):
			return err
		default:
			if failures++; failures >= 3 {
				return err
			}
		}
	}
}

// registerAgain registers the node after a change; old is the lease until then.
func (s *Session) registerAgain(ctx context.Context, old rpc.Lease) (rpc.Lease, error) {
	lease, err := s.register(ctx)
	if err != nil {
		return old, err
	}
	return lease, nil
}

// awayTimeout limits the announcement of a restart.
const awayTimeout = 2 * time.Second

// SayAway announces to the servers that the node will be back soon, so that they do
// not replace its allocs. If that fails, they treat it like any node that becomes
// silent.
func (s *Session) SayAway() {
	if !s.Connected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), awayTimeout)
	defer cancel()
	if err := s.cfg.Servers.Away(ctx, s.Identity()); err != nil {
		s.cfg.Logger.Warn("the servers were not told that this node will be back", "error", err)
	}
}

func (s *Session) sendBeat(ctx context.Context, old rpc.Lease) (rpc.Lease, error) {
	call, cancel := context.WithTimeout(ctx, max(old.TTL, time.Second))
	defer cancel()
	lease, err := s.cfg.Servers.Beat(call, s.Identity())
	if err != nil {
		return old, err
	}
	s.contact.answered(lease)
	s.keepServers(ctx)
	s.sendSchemas(ctx, lease)
	return lease, nil
}

// Touch makes the node register again because something of it changed.
func (s *Session) Touch() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// SendUpdates is the update buffer's Send.
func (s *Session) SendUpdates(ctx context.Context, batch []*model.AllocReport) (rpc.UpdateAnswer, error) {
	answer, err := s.cfg.Servers.UpdateAllocs(ctx, s.Identity(), batch)
	switch {
	case errdefs.IsNotFound(err): // the servers do not know the node
		s.Touch()
	case errdefs.IsFailedPrecondition(err): // the node is not ready: a heartbeat makes it so
		select {
		case s.refused <- struct{}{}:
		default:
		}
	}
	return answer, err
}
