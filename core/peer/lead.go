// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// electing is how long a request waits for a leader: several elections.
	electing = 5 * time.Second
	// firstPause and mostPause are the pauses between attempts, each spread at random so
	// that the clients of all servers do not come back at the same moment.
	firstPause = 20 * time.Millisecond
	mostPause  = 500 * time.Millisecond
	// reaching is how long an attempt waits for a connection to the leader.
	reaching = 2 * time.Second
	// deposed is how long a request still waits for the answer of a server that does not
	// lead any more: an answer may be under way.
	deposed = time.Second
)

// errNotSent marks errors of requests that certainly have reached no server, or that may
// be repeated anyway.
type errNotSent struct{ error }

func (e errNotSent) Unwrap() error { return e.error }

// again reports whether a request certainly did nothing.
func again(err error) bool {
	var unsent errNotSent
	return propose.NotLeader(err) || errors.As(err, &unsent)
}

// noLeader is the reference's text.
func noLeader() error {
	return errdefs.WithReason(errdefs.Unavailablef("No cluster leader"), propose.ReasonNotLeader)
}

// elsewhere refuses a request that another server has sent to this one as the leader.
func elsewhere() error {
	return errdefs.WithReason(errdefs.Unavailablef("this server does not lead, or has not applied the log yet"), propose.ReasonNotLeader)
}

// lead calls here if this server leads and otherwise there, with the leader. It repeats the
// call for a while if the call has certainly done nothing.
func (p *Peers) lead(ctx context.Context, here func(context.Context) error, there func(context.Context, leader) error) error {
	var late <-chan time.Time
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		changed := p.cfg.Consensus.LeaderChanged()
		err := p.attempt(ctx, changed, here, there)
		if err == nil || !again(err) {
			return err
		}
		if late == nil { // not earlier: an attempt may take long before its leader is lost
			late = time.After(electing)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-changed:
			pause = firstPause
			time.Sleep(rand.N(firstPause)) // spreads the requests that waited for the new leader
		case <-late:
			return final(err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// final returns the error for a client after all attempts have failed.
func final(err error) error {
	if propose.NotLeader(err) {
		return noLeader()
	}
	var unsent errNotSent
	if errors.As(err, &unsent) {
		return unsent.error
	}
	return err
}

// attempt makes one attempt. changed is closed when the leader changes: then the attempt no
// longer waits for a connection to the lost leader.
func (p *Peers) attempt(ctx context.Context, changed <-chan struct{}, here func(context.Context) error, there func(context.Context, leader) error) error {
	if p.Leads() {
		tracked, wrote := propose.Track(ctx)
		err := here(tracked)
		if wrote() && propose.NotLeader(err) {
			return errdefs.New(errdefs.Unavailable, unknownOutcome{err})
		}
		return err
	}
	id, address := p.cfg.Leader()
	if id == "" || id == p.cfg.ID { // an election, or the beginning of this server's own term
		return noLeader()
	}
	c, err := p.Client(address)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, p.reaching)
	reached := make(chan struct{})
	go func() {
		select {
		case <-changed:
		case <-reached:
		}
		cancel()
	}()
	err = c.Reach(within)
	close(reached)
	if err != nil {
		return errNotSent{err}
	}
	return there(ctx, leader{c, id})
}

// leader is the server that leads.
type leader struct {
	*rpc.Client
	id string
}

// unknownOutcome hides the reason code of an error: a part of the request was carried out.
type unknownOutcome struct{ cause error }

func (e unknownOutcome) Error() string {
	return "this server lost its lead when a part of the request was written; read before you retry: " + e.cause.Error()
}

// whileLeading returns a context that ends a moment after a server has ceased to lead,
// because a server that hangs or is cut off would never answer. After answered it ends with
// ctx alone. The caller must call stop.
func (p *Peers) whileLeading(ctx context.Context, of leader) (within context.Context, answered, stop func()) {
	within, cancel := context.WithCancelCause(ctx)
	watching, answered := context.WithCancel(within)
	go func() {
		for {
			changed := p.cfg.Consensus.LeaderChanged()
			if now, _ := p.cfg.Leader(); now != of.id {
				break
			}
			select {
			case <-changed:
			case <-watching.Done():
				return
			}
		}
		select {
		case <-time.After(deposed):
			cancel(errDeposed)
		case <-watching.Done():
		}
	}()
	return within, answered, func() { cancel(nil) }
}

var errDeposed = errdefs.Unavailablef("it leads no more")
