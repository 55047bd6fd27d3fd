// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package fingerprint streams what a plugin reports of its machine. It owns the loop that
// looks again and again and sends what has changed; what is looked at belongs to the plugins,
// which import it.
package fingerprint

import (
	"context"
	"reflect"
	"time"
)

// Again says when to look again: after an interval, or as soon as the channel is closed. The
// channel may be nil.
type Again struct {
	After   time.Duration
	Changed <-chan struct{}
}

// Stream sends what look returns, first and whenever it differs from what was sent last. It
// closes the channel when ctx ends.
func Stream[T any](ctx context.Context, look func(context.Context) (T, Again)) <-chan T {
	out := make(chan T)
	go func() {
		defer close(out)
		var last *T
		for {
			now, again := look(ctx)
			if ctx.Err() != nil {
				return
			}
			if last == nil || !reflect.DeepEqual(*last, now) {
				select {
				case out <- now:
					last = &now
				case <-ctx.Done():
					return
				}
			}
			timer := time.NewTimer(again.After)
			select {
			case <-timer.C:
			case <-again.Changed:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}()
	return out
}
