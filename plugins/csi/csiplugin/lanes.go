// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"context"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// maxLanes is the largest number of volumes for which calls are in progress at once.
const maxLanes = 1024

// lanes let one call for a volume follow the other.
type lanes struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // closed at the end of the call, by volume
}

func newLanes() *lanes { return &lanes{busy: map[string]chan struct{}{}} }

// enter waits until no call for the volume is in progress. Its caller then has the lane
// until leave. Aborted: ctx has ended before.
func (l *lanes) enter(ctx context.Context, id string) error {
	for {
		if err := ctx.Err(); err != nil { // a call that was given up begins nothing
			return pendingf("another call for %q has not ended: %w", id, err)
		}
		l.mu.Lock()
		before, taken := l.busy[id]
		if !taken {
			defer l.mu.Unlock()
			if len(l.busy) >= maxLanes {
				return errdefs.ResourceExhaustedf("calls for %d volumes are in progress, which is the maximum; repeat the call later", maxLanes)
			}
			l.busy[id] = make(chan struct{})
			return nil
		}
		l.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
		}
	}
}

func (l *lanes) leave(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.busy[id])
	delete(l.busy, id)
}

func pendingf(format string, args ...any) error {
	return errdefs.WithReason(errdefs.Abortedf(format, args...), volume.ReasonPending)
}
