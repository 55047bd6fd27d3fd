// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	callTimeout = 30 * time.Second
	retryMin    = 100 * time.Millisecond
	retryMax    = 5 * time.Second
)

func (a *Agent) identity() rpc.Identity {
	return rpc.Identity{NodeID: a.nodeID, SecretID: a.secret, Instance: a.instance, Seen: a.cluster.point()}
}

// errTrusted ends a session so that the next one tells everything anew.
var errTrusted = errdefs.Abortedf("an operator has agreed to the servers")

// keepSession keeps the node registered and attached until ctx ends.
func (a *Agent) keepSession(ctx context.Context) {
	pause := retryMin
	for ctx.Err() == nil {
		lease, err := a.register(ctx)
		if err == nil {
			pause = retryMin
			err = a.attached(ctx, lease)
		}
		if ctx.Err() != nil {
			return
		}
		if errdefs.IsConflict(err) {
			a.cluster.turnedAway()
		}
		a.session.ended(err)
		a.cfg.Logger.Warn("no session with the servers; trying again, tasks go on", "in", pause, "error", err)
		a.sleep(ctx, pause/2+rand.N(pause/2+1)) // not all nodes at once
		pause = min(2*pause, max(a.cfg.RetryMax, retryMin))
	}
}

func (a *Agent) register(ctx context.Context) (rpc.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	node := a.withReleases(a.Node()).Copy()
	events := a.events.unsent()
	node.Events, node.ClusterID = events, a.cluster.point().ClusterID
	lease, err := a.cfg.Servers.Register(ctx, node)
	if err == nil {
		err = a.cluster.answered(ctx, lease.ClusterID)
	}
	if err != nil {
		return rpc.Lease{}, err
	}
	a.events.sent(events)
	a.session.answered(lease)
	a.registered.Do(func() {
		a.cfg.Logger.Info("node registered", "node_id", a.nodeID)
		close(a.ready)
	})
	a.askReleases() // after the registration the registry may assign something else
	a.updates.Retry()
	a.sendSchemas(ctx, lease)
	return lease, nil
}

// attached runs one session: it sends heartbeats and updates and acts on pushes, until
// one of the three ends.
func (a *Agent) attached(ctx context.Context, lease rpc.Lease) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	box := &mailbox{wake: make(chan struct{}, 1)}
	var parts sync.WaitGroup
	parts.Go(func() { cancel(a.beat(ctx, lease)) })
	parts.Go(func() { cancel(a.act(ctx, box)) })
	cancel(a.cfg.Servers.Attach(ctx, a.identity(), a, box.put))
	parts.Wait()
	return context.Cause(ctx)
}

// beat sends three heartbeats per lease, and registers again when the node has changed
// or the servers require it.
func (a *Agent) beat(ctx context.Context, lease rpc.Lease) error {
	timer := time.NewTimer(beatAfter(lease))
	defer timer.Stop()
	failures := 0
	untold := false // servers did not hear of a change
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.trusted:
			return errTrusted
		case <-a.changed:
			lease, err = a.registerAgain(ctx, lease)
			untold = err != nil
		case <-a.refused:
			if lease, err = a.sendBeat(ctx, lease); err == nil {
				a.updates.Retry()
			}
		case <-timer.C:
			if untold {
				lease, err = a.registerAgain(ctx, lease)
				untold = err != nil
			} else {
				lease, err = a.sendBeat(ctx, lease)
			}
			timer.Reset(beatAfter(lease))
		}
		switch {
		case err == nil:
			failures = 0
		case errdefs.IsNotFound(err) || errdefs.IsFailedPrecondition(err) || errdefs.IsAlreadyExists(err) || errdefs.IsConflict(err):
			return err
		default:
			if failures++; failures >= 3 {
				return err
			}
		}
	}
}

// registerAgain registers the node after a change; old is the lease until then.
func (a *Agent) registerAgain(ctx context.Context, old rpc.Lease) (rpc.Lease, error) {
	lease, err := a.register(ctx)
	if err != nil {
		return old, err
	}
	return lease, nil
}

// awayTimeout limits the announcement of a restart.
const awayTimeout = 2 * time.Second

// sayAway announces to the servers that the node will be back soon, so that they do
// not replace its allocs. If that fails, they treat it like any node that becomes
// silent.
func (a *Agent) sayAway() {
	if !a.Connected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), awayTimeout)
	defer cancel()
	if err := a.cfg.Servers.Away(ctx, a.identity()); err != nil {
		a.cfg.Logger.Warn("the servers were not told that this node will be back", "error", err)
	}
}

func (a *Agent) sendBeat(ctx context.Context, old rpc.Lease) (rpc.Lease, error) {
	call, cancel := context.WithTimeout(ctx, max(old.TTL, time.Second))
	defer cancel()
	lease, err := a.cfg.Servers.Beat(call, a.identity())
	if err != nil {
		return old, err
	}
	a.session.answered(lease)
	a.sendSchemas(ctx, lease)
	return lease, nil
}

func beatAfter(lease rpc.Lease) time.Duration {
	return min(max(lease.TTL/3, 100*time.Millisecond), 10*time.Minute)
}

// touch has the node register again because something of it changed.
func (a *Agent) touch() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// sendUpdates is the update buffer's Send.
func (a *Agent) sendUpdates(ctx context.Context, batch []*model.AllocReport) (whole []string, err error) {
	answer, err := a.cfg.Servers.UpdateAllocs(ctx, a.identity(), batch)
	switch {
	case errdefs.IsNotFound(err): // the servers do not know the node
		a.touch()
	case errdefs.IsFailedPrecondition(err): // the node is not ready: a beat makes it so
		select {
		case a.refused <- struct{}{}:
		default:
		}
	}
	return answer.Whole, err
}

// told hands on what the servers know of allocs.
func (a *Agent) told(x *rpc.Assignments) {
	digests := make(map[string]uint64, len(x.Set))
	for _, y := range x.Set {
		digests[y.AllocID] = y.Reported
	}
	a.updates.Told(digests, x.Full)
}

// fetch gets allocs from the servers.
func (a *Agent) fetch(ctx context.Context, ids []string) ([]*model.Allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return a.cfg.Servers.FetchAllocs(ctx, a.identity(), ids)
}

// mailbox queues pushes until the node processes them, so that a push never waits for
// the node.
type mailbox struct {
	mu    sync.Mutex
	queue []*rpc.Assignments
	wake  chan struct{}
}

func (b *mailbox) put(x *rpc.Assignments) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.Full {
		b.queue = nil // a full set supersedes everything that is waiting
	}
	b.queue = append(b.queue, x)
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return nil
}

func (b *mailbox) take() []*rpc.Assignments {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.queue
	b.queue = nil
	return out
}

// act acts on pushes. If that fails the session ends, because the next one begins with
// a full set.
func (a *Agent) act(ctx context.Context, box *mailbox) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-box.wake:
		}
		for _, x := range box.take() {
			if err := a.hear(ctx, x); err != nil {
				return err
			}
			a.told(x)
			if err := a.allocs.Apply(ctx, x, a.cluster.doubts(), a.fetch); err != nil {
				return err
			}
			if x.Full || x.Plugins {
				a.askReleases()
			}
		}
	}
}

func (a *Agent) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
