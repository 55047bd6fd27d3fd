// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package cutoff stops allocs of groups that must not run on when their node has lost its
// servers. It keeps when a server last answered, so that a restart of the agent does not
// begin the time anew. Only core/agent and packages below it may import it.
package cutoff

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/session"
	"github.com/drover-project/drover/sdk/errdefs"
)

// heardKey is where the store keeps when a server last answered.
const heardKey = "servers-heard"

const (
	// cutOffIdle is the interval of the loop while no alloc has a limit; a new alloc wakes
	// it.
	cutOffIdle = time.Minute
	// cutOffUnsure is the interval of the loop until a server has answered, or is known to be
	// out of reach, for the first time.
	cutOffUnsure = 250 * time.Millisecond
	// savesPerLimit is how often the time of the last contact is stored within the shortest
	// limit. A restarted agent may therefore act too early by at most that fraction of the
	// limit.
	savesPerLimit = 8
)

// Store keeps when a server last answered.
type Store interface {
	// Get returns NotFound if there is no value under the key.
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// Allocs are the allocs of the node.
type Allocs interface {
	Runners() []*alloc.Runner
	// Runner returns the runner of an alloc, or an error of class NotFound.
	Runner(allocID string) (*alloc.Runner, error)
}

// Config is what a watch needs.
type Config struct {
	Store   Store
	Allocs  Allocs
	Session func() session.State
	Logger  hclog.Logger
}

// Watch stops allocs that have run for too long without servers.
type Watch struct {
	cfg   Config
	began time.Time // when this agent began
	saved time.Time // time in the store; zero means none
	wake  chan struct{}
}

// New returns a watch and reads when a server last answered an earlier agent.
func New(ctx context.Context, cfg Config) (*Watch, error) {
	w := &Watch{cfg: cfg, began: time.Now(), wake: make(chan struct{}, 1)}
	body, err := cfg.Store.Get(ctx, heardKey)
	if err == nil {
		err = json.Unmarshal(body, &w.saved)
	} else if errdefs.IsNotFound(err) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("read when a server was last heard of: %w", err)
	}
	return w, nil
}

// limited is an alloc that must not run on without servers.
type limited struct {
	id    string
	after time.Duration
}

// cutOff decides which allocs have run for too long since a server was heard, and when to
// decide again; zero means never. No alloc is cut off while the lease of its node lasts:
// until then servers count the node as alive.
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

// Run stops allocs once the node has been without servers for longer than their group
// allows: by then the servers have replaced them. It ends with ctx.
func (w *Watch) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
		timer.Reset(w.lookAtContact(ctx, time.Now()))
	}
}

// lookAtContact stops the allocs whose time is over and returns when to look again.
func (w *Watch) lookAtContact(ctx context.Context, now time.Time) time.Duration {
	allocs := w.limited()
	if len(allocs) == 0 {
		return cutOffIdle
	}
	servers := w.cfg.Session()
	if servers.Heard.IsZero() && servers.Lost == nil {
		return cutOffUnsure // this agent has just started: the servers may well answer
	}
	every := cutOffIdle
	for _, x := range allocs {
		every = min(every, max(x.after/savesPerLimit, time.Second))
	}
	if servers.Heard.Sub(w.saved) >= every {
		w.saveContact(ctx, servers.Heard)
	}
	over, next := cutOff(now, w.last(servers.Heard, now), servers.TTL, allocs)
	for _, x := range over {
		if r, err := w.cfg.Allocs.Runner(x.id); err == nil {
			w.cfg.Logger.Warn("alloc stopped: the node has lost its servers for longer than its group allows", "alloc_id", x.id, "stop_on_client_after", x.after)
			r.CutOff(x.after)
		}
	}
	if !next.IsZero() {
		every = min(every, next.Sub(now))
	}
	return max(every, time.Millisecond)
}

// last returns when a server last answered this agent or an earlier one. A time in the
// future is ignored: it was stored while the clock was wrong.
func (w *Watch) last(heard, now time.Time) time.Time {
	switch {
	case !heard.IsZero():
		return heard
	case w.saved.IsZero() || w.saved.After(now):
		return w.began
	}
	return w.saved
}

func (w *Watch) saveContact(ctx context.Context, heard time.Time) {
	body, err := json.Marshal(heard.Round(0))
	if err == nil {
		err = w.cfg.Store.Put(ctx, heardKey, body)
	}
	if err != nil {
		w.cfg.Logger.Warn("when a server last answered could not be written down; an agent that begins anew would count from its begin", "error", err)
		return
	}
	w.saved = heard
}

// limited lists the allocs that live and must not run on without servers.
func (w *Watch) limited() []limited {
	var out []limited
	for _, r := range w.cfg.Allocs.Runners() {
		if after := r.StopAfter(); after > 0 && !r.Ended() && !r.IsCutOff() {
			out = append(out, limited{r.ID(), after})
		}
	}
	return out
}

// Look makes the loop look at once, because there may be a new alloc.
func (w *Watch) Look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
