// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Rates of reading fingerprints: printBurst at once and then printRate per second,
// because each wakes all waiters. A stream that has ended is reopened after
// printRetryMin, which doubles up to printRetryMax.
const (
	printBurst    = 20
	printRate     = 5
	printRetryMin = time.Second
	printRetryMax = time.Minute
)

// printReader reads the fingerprints of one name of one process.
type printReader[T any] struct {
	open func(context.Context) (<-chan T, error)
	take func(T)
	// trouble is called with the reason if there are no fingerprints.
	trouble func(error)
}

// run reads consecutive streams until ctx ends, beginning with in unless it is nil; the first
// fingerprint of in has been taken already. A plugin that floods is read slowly, and gRPC's
// flow control then slows it down.
func (r *printReader[T]) run(ctx context.Context, in <-chan T) {
	pace := rate.NewLimiter(printRate, printBurst)
	answered := in != nil
	ever := answered
	for retry := printRetryMin; ctx.Err() == nil; retry = min(2*retry, printRetryMax) {
		begun := time.Now()
		if in == nil {
			var err error
			if in, err = r.open(ctx); err != nil {
				in = nil
				r.tell(ctx, errdefs.New(errdefs.ClassOf(err), err))
				if errdefs.IsUnimplemented(err) {
					return
				}
			}
		}
		if in != nil {
			ever = r.read(ctx, in, answered, pace) || ever
			in, answered = nil, false
			if !ever {
				r.tell(ctx, errdefs.FailedPreconditionf("the plugin's stream of fingerprints ended before the first one; the plugin must send one at once, and keep the stream open"))
			}
		}
		if time.Since(begun) > printRetryMax {
			retry = printRetryMin
		}
		_ = sleep.For(ctx, retry)
	}
}

// read reads one stream to its end and reports whether it had a fingerprint. Its first
// answer has a deadline. A stream that has answered has none: nothing more comes from a
// plugin whose fingerprint does not change.
func (r *printReader[T]) read(ctx context.Context, in <-chan T, answered bool, pace *rate.Limiter) bool {
	late := time.AfterFunc(configLimit, func() {
		r.tell(ctx, errdefs.DeadlineExceededf("the plugin has sent no fingerprint within %s", configLimit))
	})
	defer late.Stop()
	if answered {
		late.Stop()
	}
	for v := range in {
		late.Stop()
		answered = true
		if ctx.Err() == nil {
			r.take(v)
		}
		_ = pace.Wait(ctx) // fails only when ctx ends, which ends the stream, too
	}
	return answered
}

func (r *printReader[T]) tell(ctx context.Context, err error) {
	if ctx.Err() == nil {
		r.trouble(err)
	}
}

// firstFingerprint is how long a start waits for the first fingerprint.
const firstFingerprint = 2 * time.Second

// untilFirst starts follow and returns when it has called first, so that the first
// fingerprints are available when a start returns, unless one is slow.
func untilFirst(ctx context.Context, watchers *sync.WaitGroup, follow func(first func())) {
	arrived := make(chan struct{})
	watchers.Go(func() { follow(sync.OnceFunc(func() { close(arrived) })) })
	select {
	case <-arrived:
	case <-ctx.Done():
	case <-time.After(firstFingerprint):
	}
}
