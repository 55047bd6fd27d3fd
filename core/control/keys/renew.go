// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keys

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Renewer replaces and removes root keys by their age, on the leader. All fields are
// required, except Limits: its zero value means the defaults.
type Renewer struct {
	Limits Limits
	Ring   func() Ring
	// Rotate makes a new key, which becomes active at a time, zero for at once, and returns
	// its id.
	Rotate func(ctx context.Context, publish time.Time) (id string, err error)
	// Remove removes a key. FailedPrecondition, NotFound: something uses it again, or it
	// is gone.
	Remove func(ctx context.Context, id string) error
	Logger hclog.Logger
}

// Run runs until ctx ends.
func (r Renewer) Run(ctx context.Context) {
	if r.Limits == (Limits{}) {
		r.Limits = DefaultLimits()
	}
	tick := time.NewTicker(r.Limits.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.once(ctx)
	}
}

func (r Renewer) once(ctx context.Context) {
	now := time.Now()
	due := r.Limits.Due(r.Ring(), now)
	if at := due.Publish; !at.IsZero() {
		if !at.After(now) {
			at = time.Time{}
		}
		id, err := r.Rotate(ctx, at)
		if err == nil && at.IsZero() {
			r.Logger.Info("the root key was old and was replaced; variables that it encrypts stay readable", "key", id)
		} else if err == nil {
			r.Logger.Info("a new root key is published and replaces the active one in time; variables that it encrypts stay readable", "key", id, "from", at)
		} else if ctx.Err() == nil {
			r.Logger.Warn("the root key is old and could not be replaced; this is tried again", "error", err)
		}
	}
	for _, id := range due.Remove {
		err := r.Remove(ctx, id)
		if err == nil {
			r.Logger.Info("an old root key that nothing needs was removed", "key", id)
		} else if ctx.Err() == nil && !errdefs.IsFailedPrecondition(err) && !errdefs.IsNotFound(err) {
			r.Logger.Warn("an old root key could not be removed; this is tried again", "key", id, "error", err)
		}
	}
}
