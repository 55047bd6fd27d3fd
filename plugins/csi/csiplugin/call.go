// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// pace says when a call is repeated: first after first, then after twice as long each time,
// up to last.
type pace struct{ first, last time.Duration }

var standardPace = pace{first: 100 * time.Millisecond, last: 5 * time.Second}

// wait returns the pause before the try with the number n, from 1 on, with a random part
// so that callers do not meet again.
func (p pace) wait(n int) time.Duration {
	d := p.last
	if n < 16 {
		d = min(d, p.first<<(n-1))
	}
	return d/2 + rand.N(d/2+1)
}

// call is one call for a volume, or for whatever its lane stands for.
type call struct {
	lane    string
	what    string         // for errors: "create volume \"a\""
	secrets volume.Secrets // which must not show
	// try makes the call once. It uses only ctx, which outlives the caller.
	try func(ctx context.Context, c *conn, s *settings) error
	// precondition is the reason of this call's FailedPrecondition; "" if it says nothing.
	precondition string
}

// do makes a call and returns its outcome. The call itself outlives a caller that gives up,
// because the driver works on: the next call for the volume waits until it has ended. It
// is repeated where the table of errors of CSI says so, as long as somebody waits.
func (p *Plugin) do(ctx context.Context, c call) error {
	p.sent.add(c.secrets)
	set, conn, err := p.current()
	if err != nil {
		return err
	}
	if err := p.lanes.enter(ctx, c.lane); err != nil {
		return err
	}
	conn.begin()
	done := make(chan error, 1)
	go func() {
		err := p.repeat(ctx, c, conn, &set)
		p.lanes.leave(c.lane)
		conn.end()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errdefs.WithReason(errdefs.DeadlineExceededf("%s: the driver has not answered in time; what it does goes on: %w", c.what, ctx.Err()), volume.ReasonPending)
	}
}

// repeat makes a call again and again until its outcome is final.
func (p *Plugin) repeat(ctx context.Context, c call, conn *conn, set *settings) error {
	for n := 1; ; n++ {
		err := p.once(ctx, c, conn, set)
		if err == nil || !again(err) || !p.pause(ctx, n) {
			return p.explain(c, err)
		}
	}
}

// pause waits before try n+1 of a call, and reports whether ctx still allows it.
func (p *Plugin) pause(ctx context.Context, n int) bool {
	timer := time.NewTimer(p.pace.wait(n))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (p *Plugin) once(ctx context.Context, c call, conn *conn, set *settings) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), set.callTimeout)
	defer cancel()
	return c.try(ctx, conn, set)
}

// again reports whether CSI wants a call with this outcome to be repeated as it is.
func again(err error) bool {
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch st.Code() {
	case codes.Aborted, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	default:
		return false
	}
}

// read makes a call that changes nothing and so needs no lane.
func (p *Plugin) read(ctx context.Context, c call) error {
	p.sent.add(c.secrets)
	set, conn, err := p.current()
	if err != nil {
		return err
	}
	conn.begin()
	defer conn.end()
	for n := 1; ; n++ {
		try, cancel := context.WithTimeout(ctx, set.callTimeout)
		err := c.try(try, conn, &set)
		cancel()
		if err == nil || !again(err) || status.Code(err) == codes.Aborted || !p.pause(ctx, n) {
			return p.explain(c, err)
		}
	}
}
