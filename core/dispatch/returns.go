// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// DefaultMaxReturns is the default number of nodes per second that may begin to be heard
// by one server: when a server is lost, all of its nodes return at the same moment.
const DefaultMaxReturns = 1000

// returns spreads nodes that return at the same moment. It is pure: times are arguments.
type returns struct {
	rate   float64 // per second, also the largest number at once
	tokens float64
	at     time.Time // when tokens was computed
	queue  time.Time // when the last of those is due that were sent away
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
	if r.queue.Before(now) {
		r.queue = now
	}
	r.queue = r.queue.Add(time.Duration(float64(time.Second) / r.rate))
	wait := min(r.queue.Sub(now), longestReturn)
	return errdefs.WithRetryAfter(errdefs.ResourceExhaustedf("%.0f nodes per second return to this server already; try again in %s", r.rate, wait.Round(time.Millisecond)), wait)
}

// longestReturn is the longest time for which a node is sent away.
const longestReturn = 10 * time.Second
