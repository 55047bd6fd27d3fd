// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// heardKey is where the store keeps when a server last answered.
const heardKey = "servers-heard"

const (
	// cutOffIdle is how often the loop looks where nothing depends on it; a new alloc
	// wakes it.
	cutOffIdle = time.Minute
	// cutOffUnsure is how often it looks while the first word of or about the servers
	// is still to come.
	cutOffUnsure = 250 * time.Millisecond
	// savesPerLimit is how many times within the shortest limit the time is written
	// down: an agent that begins anew may take the servers for lost that much too early.
	savesPerLimit = 8
)

// contact is what the node keeps of its contact with servers, for allocs that must
// not run on without.
type contact struct {
	began time.Time // when this agent began
	saved time.Time // what the store has; zero is nothing
	wake  chan struct{}
}

func (c *contact) load(ctx context.Context, store interface {
	Get(context.Context, string) ([]byte, error)
}) error {
	c.began, c.wake = time.Now(), make(chan struct{}, 1)
	body, err := store.Get(ctx, heardKey)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &c.saved)
}

// limited is an alloc that must not run on without servers.
type limited struct {
	id    string
	after time.Duration
}

// cutOff decides which allocs have run for too long since a server was heard, and
// when to decide again; zero is never. No alloc is cut off while the lease of its node
// lasts: until then servers count the node as alive.
func cutOff(now, heard time.Time, lease time.Duration, allocs []limited) (over []limited, next time.Time) {
	for _, x := range allocs {
		end := heard.Add(max(x.after, lease))
		switch {
		case !now.Before(end):
			over = append(over, x)
		case next.IsZero() || end.Before(next):
			next = end
		}
	}
	return over, next
}

// heed stops allocs of groups that say so once the node has lost its servers for as
// long as they say: the servers have replaced them by then. It goes on until ctx ends.
func (a *Agent) heed(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.contact.wake:
		case <-timer.C:
		}
		timer.Reset(a.lookAtContact(ctx, time.Now()))
	}
}

// lookAtContact stops what is to be stopped now and returns when to look again.
func (a *Agent) lookAtContact(ctx context.Context, now time.Time) time.Duration {
	allocs := a.limited()
	if len(allocs) == 0 {
		return cutOffIdle
	}
	session := a.Session()
	if session.Heard.IsZero() && session.Lost == nil {
		return cutOffUnsure // this agent has just begun: the servers may well be there
	}
	every := cutOffIdle
	for _, x := range allocs {
		every = min(every, max(x.after/savesPerLimit, time.Second))
	}
	if session.Heard.Sub(a.contact.saved) >= every {
		a.saveContact(ctx, session.Heard)
	}
	over, next := cutOff(now, a.contact.last(session.Heard, now), session.TTL, allocs)
	for _, x := range over {
		if r, err := a.allocs.Runner(x.id); err == nil {
			a.cfg.Logger.Warn("alloc stopped: the node has lost its servers for longer than its group allows", "alloc_id", x.id, "stop_on_client_after", x.after)
			r.CutOff(x.after)
		}
	}
	if !next.IsZero() {
		every = min(every, next.Sub(now))
	}
	return max(every, time.Millisecond)
}

// last is when a server last answered this node, by this agent or by one before it. A
// time that is ahead of the clock was written by one that was wrong.
func (c *contact) last(heard, now time.Time) time.Time {
	switch {
	case !heard.IsZero():
		return heard
	case c.saved.IsZero() || c.saved.After(now):
		return c.began
	}
	return c.saved
}

func (a *Agent) saveContact(ctx context.Context, heard time.Time) {
	body, err := json.Marshal(heard.Round(0))
	if err == nil {
		err = a.store.Put(ctx, heardKey, body)
	}
	if err != nil {
		a.cfg.Logger.Warn("when a server last answered could not be written down; an agent that begins anew would count from its begin", "error", err)
		return
	}
	a.contact.saved = heard
}

// limited lists the allocs that live and must not run on without servers.
func (a *Agent) limited() []limited {
	var out []limited
	for _, r := range a.allocs.Runners() {
		if after := r.StopAfter(); after > 0 && !r.Ended() && !r.IsCutOff() {
			out = append(out, limited{r.ID(), after})
		}
	}
	return out
}

// lookAgain has the loop look at once: there may be another alloc.
func (c *contact) lookAgain() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
