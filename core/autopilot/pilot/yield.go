// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pilot

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// lookAtDisk is how often a leader looks whether it may write.
	lookAtDisk = time.Second
	// yieldPause is the time between two attempts of a server to hand over, also if it has
	// become the leader again meanwhile: if all servers are full, the lead does not go round
	// among them faster than this.
	yieldPause = 30 * time.Second
	// yieldTimeout limits one attempt.
	yieldTimeout = 5 * time.Second
)

// yield hands the lead over while this server refuses writes, because its disk is full: the
// others may have room, and without this the whole cluster would be read-only. It returns
// when ctx ends, that is, when this server no longer leads. tried is when this server last
// tried to.
func yield(ctx context.Context, tried *time.Time, readOnly func() error, transfer func(context.Context) error, logger hclog.Logger) {
	tick := time.NewTicker(lookAtDisk)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		why := readOnly()
		if why == nil || !tried.IsZero() && time.Since(*tried) < yieldPause {
			continue
		}
		*tried = time.Now()
		if err := transfer(ctx); err != nil && ctx.Err() == nil {
			logger.Warn("this server leads and refuses writes, and no other could take the lead", "because", why, "error", err)
			continue
		}
		logger.Warn("this server refuses writes, so it has handed the lead over", "because", why)
	}
}

// YieldIfFull hands the lead over while this server leads others and refuses writes. It
// returns when ctx ends, and must have returned before it is called again.
func (p *Pilot) YieldIfFull(ctx context.Context) {
	raft := p.cfg.Raft
	readOnly := func() error {
		if raft.AloneVoting() {
			return nil // there is nobody else
		}
		return raft.ReadOnly()
	}
	yield(ctx, &p.yielded, readOnly, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, yieldTimeout)
		defer cancel()
		return raft.TransferLeadership(ctx, p.Successor(nil))
	}, p.cfg.Logger)
}
