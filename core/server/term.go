// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/propose"
)

const (
	// termTimeout limits one attempt to write the beginning of a term, termPause is
	// the time between two attempts.
	termTimeout = 5 * time.Second
	termPause   = time.Second
)

// beginTerm writes to the log that this server is the leader from now on: see
// model.Cluster. From then on nodes accept its assignments as confirmed.
func (s *Server) beginTerm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, termTimeout)
	defer cancel()
	cmd := &fsm.BeginTerm{ClusterID: uuid.NewString(), TermID: uuid.NewString()}
	if _, err := propose.Commands(ctx, s.log(), cmd); err != nil {
		return err
	}
	s.dispatch.Begin(cmd.TermID)
	return nil
}

// keepBeginning retries until the term is written or over.
func (s *Server) keepBeginning(ctx context.Context) {
	tick := time.NewTicker(termPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.beginTerm(ctx) == nil {
			return
		}
	}
}
