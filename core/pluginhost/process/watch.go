// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Pings configures when a process that does not answer counts as hung.
type Pings struct {
	Interval time.Duration // between pings; default 10 s
	Timeout  time.Duration // time limit for the answer; default 5 s
	Failures int           // consecutive failures until it counts as hung; default 3
}

// Watch returns why the process is gone or hung, or the error of ctx at its end.
func (p *Process) Watch(ctx context.Context, pings Pings) error {
	lost := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		waitLost(watching, p.Conn)
		close(lost)
	})
	ticker := time.NewTicker(pings.Interval)
	defer ticker.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lost:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return errdefs.Unavailablef("plugin %s (pid %d): %s", p.File.Path, p.PID, p.fate())
		case <-ticker.C:
		}
		err := p.ping(ctx, pings.Timeout)
		if err == nil {
			failures = 0
			continue
		}
		if isClosed(lost) {
			continue // it does not hang, it is gone
		}
		if failures++; failures >= pings.Failures && ctx.Err() == nil {
			return errdefs.Unavailablef("plugin %s (pid %d): is hung, so it is killed: %d pings in a row had no answer: %w", p.File.Path, p.PID, failures, err)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *Process) ping(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := p.ask(ctx); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// conn is the state of a connection; *grpc.ClientConn implements it.
type conn interface {
	GetState() connectivity.State
	WaitForStateChange(context.Context, connectivity.State) bool
}

// waitLost returns when an established connection is lost, which reveals the end of a
// process at once, even of one that is not our child. A connection on which a call was
// answered may still say that it connects: gRPC lets calls pass first and changes the
// state after that.
func waitLost(ctx context.Context, c conn) {
	state, established := c.GetState(), false
	for state == connectivity.Ready || state == connectivity.Connecting && !established {
		established = established || state == connectivity.Ready
		if !c.WaitForStateChange(ctx, state) {
			return
		}
		state = c.GetState()
	}
}
