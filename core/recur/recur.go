// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package recur runs a reconciliation again and again: at each change of some tables, and
// at intervals for causes that are not in state. It owns when an attempt is made, that a
// panic costs only the attempt, and that a failure is logged once and not at each attempt.
package recur

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Loop says when something is done. All fields except Store and Tables are required.
type Loop struct {
	// Period is the time between two attempts, if nothing has changed.
	Period time.Duration
	// Store and Tables are what is watched.
	Store  *state.Store
	Tables []string
	// Later loops make the first attempt after a period, and not at once.
	Later bool
	// Patient loops wait for the period after a failure, even if a table changes.
	Patient bool
	// Trouble is the text of the log line of a failed attempt.
	Trouble string
	Logger  hclog.Logger
}

// Run calls do as the Loop says, until ctx ends.
func (l Loop) Run(ctx context.Context, do func(context.Context) error) {
	tick := time.NewTicker(l.Period)
	defer tick.Stop()
	if l.Later {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	last := ""
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(ctx)
		changed := l.watch(watching)
		why := ""
		if err := attempt(ctx, do); err != nil && ctx.Err() == nil {
			if why = err.Error(); why != last {
				l.Logger.Warn(l.Trouble, "error", err)
			}
			if l.Patient {
				changed = nil
			}
		}
		last = why
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
		}
		stop()
	}
}

func (l Loop) watch(ctx context.Context) <-chan struct{} {
	if l.Store == nil {
		return nil
	}
	var keys []state.Key
	for _, t := range l.Tables {
		keys = append(keys, state.Key{Table: t})
	}
	return l.Store.Watch(ctx, keys...)
}

func attempt(ctx context.Context, do func(context.Context) error) (err error) {
	defer panics.Handle(func(p *panics.Panic) {
		err = errdefs.Internalf("this is a defect of drover: %v\n%s", p.Value, p.Stack)
	})
	return do(ctx)
}
