// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/drover-project/drover/core/fsm"
)

const (
	// termTimeout bounds one attempt to write that a term has begun, termPause is the
	// time between two.
	termTimeout = 5 * time.Second
	termPause   = time.Second
)

// beginTerm writes to the log that this server leads from here on: see
// model.Cluster. From then on nodes take its word for what shall not run.
func (s *Server) beginTerm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, termTimeout)
	defer cancel()
	cmd := &fsm.BeginTerm{ClusterID: uuid.NewString(), TermID: uuid.NewString()}
	data, err := fsm.Encode(cmd)
	if err != nil {
		return err
	}
	if _, _, err := s.raft.Propose(ctx, data); err != nil {
		return err
	}
	s.dispatch.Begin(cmd.TermID)
	return nil
}

// keepBeginning tries until the term is written or over.
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
