// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package term writes to the log that a server is the leader from now on: see
// model.Cluster. core/server composes it.
package term

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/propose"
)

const (
	// timeout limits one attempt to write the beginning of a term, pause is the time
	// between two attempts.
	timeout = 5 * time.Second
	pause   = time.Second
)

// Beginner begins terms. All fields are required.
type Beginner struct {
	Log   propose.Log
	NewID func() string
	// Begun is called with the id of each term once it is in the log.
	Begun func(termID string)
}

// Once writes the beginning of a term. From then on nodes accept the assignments of this
// server as confirmed.
func (b Beginner) Once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := &fsm.BeginTerm{ClusterID: b.NewID(), TermID: b.NewID()}
	if _, err := propose.Commands(ctx, b.Log, cmd); err != nil {
		return err
	}
	b.Begun(cmd.TermID)
	return nil
}

// Retry tries again until the term is written or ctx ends.
func (b Beginner) Retry(ctx context.Context) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if b.Once(ctx) == nil {
			return
		}
	}
}
