// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervised

import (
	"context"
	"maps"
	"time"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Answering returns an error if the supervisor does not answer: then no task can be
// started or stopped. The keeper replaces a hanging supervisor; this reports the
// cases in which that does not help.
func (t *Tasks) Answering(ctx context.Context) error {
	t.mu.Lock()
	c := t.clients[t.dir]
	t.mu.Unlock()
	if c == nil {
		return nil // this process has not used it yet
	}
	limit, _ := supervisor.HangLimits()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := c.Answers(ctx); err != nil {
		return errdefs.Unavailablef("the supervisor of tasks has not answered for %s: %w; its tasks keep running, see %s/supervisor.log", limit, err, t.dir)
	}
	return nil
}

// Fingerprints sends the fingerprint that look returns, and again when the channel
// that look returned is closed or the supervisor's health changes. While the
// supervisor does not answer, the fingerprint is unhealthy.
func (t *Tasks) Fingerprints(ctx context.Context, look func() (driver.Fingerprint, <-chan struct{})) <-chan driver.Fingerprint {
	out := make(chan driver.Fingerprint)
	go func() {
		defer close(out)
		_, every := supervisor.HangLimits()
		tick := time.NewTicker(every)
		defer tick.Stop()
		var last driver.Fingerprint
		for tell := true; ; {
			f, changed := look()
			if err := t.Answering(ctx); err != nil && f.Health == driver.HealthHealthy {
				f.Health, f.HealthDescription = driver.HealthUnhealthy, err.Error()
			}
			if tell || f.Health != last.Health || f.HealthDescription != last.HealthDescription || !maps.Equal(f.Attributes, last.Attributes) {
				select {
				case out <- f:
					last = f
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changed:
				tell = true
			case <-tick.C:
				tell = false
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
