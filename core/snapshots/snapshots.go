// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package snapshots saves and restores the state of a cluster as an archive, and computes
// the digest by which servers are compared. core/server composes it.
package snapshots

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/state"
)

// Config configures Snapshots. All fields except DataDir are required.
type Config struct {
	// DataDir is where snapshots in transit are kept, because /tmp may be small; if it is
	// empty, they are in /tmp.
	DataDir string
	Raft    *consensus.Node
	Store   *state.Store
	// Level is the newest capability level that this server reads.
	Level int
	// Opens returns an error if this server cannot open the root keys of a state.
	Opens func(*state.View) error
	// Restored is called after the state was replaced, and makes the change known.
	Restored func(ctx context.Context) error
}

// Snapshots saves and restores.
type Snapshots struct {
	cfg    Config
	one    sync.Mutex // held while a snapshot is written or restored
	digest digest
}

// New returns the Snapshots of a server.
func New(cfg Config) *Snapshots { return &Snapshots{cfg: cfg} }

func (s *Snapshots) scratch() (string, error) {
	if s.cfg.DataDir == "" {
		return "", nil
	}
	if err := os.MkdirAll(s.cfg.DataDir, 0o700); err != nil {
		return "", fmt.Errorf("make the server's directory: %w", err)
	}
	return s.cfg.DataDir, nil
}

// Save writes the state of the cluster into an archive.
func (s *Snapshots) Save(ctx context.Context) (*api.Snapshot, error) {
	dir, err := s.scratch()
	if err != nil {
		return nil, err
	}
	s.one.Lock() // one at a time: each needs as much disk space as the state
	defer s.one.Unlock()
	a, err := s.cfg.Raft.SaveArchive(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &api.Snapshot{ReadCloser: a, Size: a.Size, Digest: a.Digest, Index: a.Info.Index}, nil
}

// Restore replaces the state of the cluster by an archive. If this server cannot read the
// state of the archive, or its variables, nothing changes.
func (s *Snapshots) Restore(ctx context.Context, r io.Reader) error {
	dir, err := s.scratch()
	if err != nil {
		return err
	}
	s.one.Lock()
	defer s.one.Unlock()
	if err := s.cfg.Raft.RestoreArchive(ctx, dir, r, s.readable); err != nil {
		return err
	}
	if err := s.cfg.Restored(ctx); err != nil {
		return fmt.Errorf("the snapshot is restored, but that could not be written to the log; restart the server: %w", err)
	}
	return nil
}

func (s *Snapshots) readable(r io.Reader) error {
	scratch := state.New()
	if err := fsm.Load(s.cfg.Level, scratch, r); err != nil {
		return err
	}
	return s.cfg.Opens(scratch.View())
}

// digest is the newest digest of the state. It is computed for one request at a time, and
// once for each index.
type digest struct {
	mu     sync.Mutex
	newest api.StateDigest
}

// Digest returns the digest of this server's own state.
func (s *Snapshots) Digest(ctx context.Context) (*api.StateDigest, error) {
	s.digest.mu.Lock()
	defer s.digest.mu.Unlock()
	view := s.cfg.Store.View()
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
