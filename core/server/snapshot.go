// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/state"
)

// scratch returns the directory for snapshots in transit: in the data directory,
// because /tmp may be small.
func (s *Server) scratch() (string, error) {
	if s.cfg.DataDir == "" {
		return "", nil
	}
	if err := os.MkdirAll(s.cfg.DataDir, 0o700); err != nil {
		return "", fmt.Errorf("make the server's directory: %w", err)
	}
	return s.cfg.DataDir, nil
}

// SaveSnapshot writes the state of the cluster into an archive.
func (s *Server) SaveSnapshot(ctx context.Context) (*api.Snapshot, error) {
	dir, err := s.scratch()
	if err != nil {
		return nil, err
	}
	s.snapshots.Lock() // one at a time: each needs as much disk space as the state
	defer s.snapshots.Unlock()
	a, err := s.raft.SaveArchive(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &api.Snapshot{ReadCloser: a, Size: a.Size, Digest: a.Digest, Index: a.Info.Index}, nil
}

// digest is the newest digest of the state. It is computed for one request at a time, and
// once for each index.
type digest struct {
	mu     sync.Mutex
	newest api.StateDigest
}

// StateDigest returns the digest of this server's own state.
func (s *Server) StateDigest(ctx context.Context) (*api.StateDigest, error) {
	s.digest.mu.Lock()
	defer s.digest.mu.Unlock()
	view := s.store.View()
	if last := s.digest.newest; last.Digest != "" && last.Index == view.Index() {
		return &last, nil
	}
	text, err := fsm.Digest(ctx, view)
	if err != nil {
		return nil, err
	}
	s.digest.newest = api.StateDigest{Index: view.Index(), Digest: text}
	out := s.digest.newest
	return &out, nil
}

// RestoreSnapshot replaces the state of the cluster by an archive.
func (s *Server) RestoreSnapshot(ctx context.Context, r io.Reader) error {
	dir, err := s.scratch()
	if err != nil {
		return err
	}
	s.snapshots.Lock()
	defer s.snapshots.Unlock()
	if err := s.raft.RestoreArchive(ctx, dir, r, s.readable); err != nil {
		return err
	}
	// The history continues from the snapshot. The new term distinguishes it from what
	// nodes saw after the snapshot.
	if err := s.beginTerm(ctx); err != nil {
		return fmt.Errorf("the snapshot is restored, but that could not be written to the log; restart the server: %w", err)
	}
	return nil
}

// readable returns an error if this server cannot read the state of a snapshot, or its
// variables.
func (s *Server) readable(r io.Reader) error {
	scratch := state.New()
	if err := fsm.NewAt(s.cfg.Level, scratch, s.cfg.Logger.Named("restore")).Restore(r); err != nil {
		return err
	}
	return s.opens(scratch.View())
}
