// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// DefaultMaxReturns is the default number of nodes per second that one server accepts anew:
// when a server is lost, all of its nodes move at the same moment.
const DefaultMaxReturns = 1000

// maxArriving is the number of nodes whose registration is under way at one server. More
// would only make each of them, and everything else on a busy machine, slower: a leader
// that is not in time for its followers loses its lead.
const maxArriving = 128

// returns spreads nodes that return at the same moment. It is pure: times are arguments.
type returns struct {
	rate     float64 // nodes per second, and the largest burst
	tokens   float64
	at       time.Time // when tokens was computed
	queue    time.Time // when the last of the nodes that were sent away may return
	arriving int       // nodes that were admitted and whose registration is under way
}

func newReturns(rate float64, now time.Time) returns {
	return returns{rate: rate, tokens: rate, at: now}
}

// admit returns an error of class ResourceExhausted, with a retry hint, if a node must
// come later. Each node that is sent away gets a later time than the one before it.
func (r *returns) admit(now time.Time) error {
	r.tokens = min(r.tokens+now.Sub(r.at).Seconds()*r.rate, max(r.rate, 1))
	r.at = now
	if r.tokens >= 1 {
		r.tokens--
		return nil
	}
	wait := r.later(now)
	return errdefs.WithRetryAfter(errdefs.ResourceExhaustedf("%.0f nodes per second return to this server already; try again in %s", r.rate, wait.Round(time.Millisecond)), wait)
}

// arrive is admit for a node that registers: it also refuses a node while too many others
// are registering. A node that it admits is to be counted off by arrived.
func (r *returns) arrive(now time.Time) error {
	if r.arriving >= maxArriving {
		wait := r.later(now)
		return errdefs.WithRetryAfter(errdefs.ResourceExhaustedf("%d nodes are registering with this server at this moment; try again in %s", maxArriving, wait.Round(time.Millisecond)), wait)
	}
	err := r.admit(now)
	if err == nil {
		r.arriving++
	}
	return err
}

func (r *returns) arrived() { r.arriving-- }

// later returns how long a node is to wait that is sent away.
func (r *returns) later(now time.Time) time.Duration {
	if r.queue.Before(now) {
		r.queue = now
	}
	r.queue = r.queue.Add(time.Duration(float64(time.Second) / r.rate))
	return min(r.queue.Sub(now), longestReturn)
}

// longestReturn is the longest time for which a node is sent away.
const longestReturn = 10 * time.Second
