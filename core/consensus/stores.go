// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/consensus/badgerlog"
	"github.com/drover-project/drover/core/durable"
)

// stores is what raft keeps on disk, or in memory for a server without one.
type stores struct {
	log       raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	closer    io.Closer
	space     *durable.Guard // nil in memory
	faults    *faults        // nil in memory
}

// Free space that is kept: what the memory maps of badger's files may still
// grow into, of the memtables and of the tables that they are flushed to.
const (
	serverReserve = 128 << 20
	devReserve    = 32 << 20
)

func openStores(cfg Config, logger hclog.Logger, fatal func(error)) (stores, error) {
	if cfg.DataDir == "" {
		memory := raft.NewInmemStore()
		return stores{log: memory, stable: memory, snapshots: raft.NewInmemSnapshotStore()}, nil
	}
	profile, reserve := badgerlog.ProfileServer, uint64(serverReserve)
	if cfg.Dev {
		profile, reserve = badgerlog.ProfileDev, devReserve
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return stores{}, fmt.Errorf("make the directory of the log: %w", err)
	}
	space := durable.New(cfg.DataDir, reserve)
	logDir := filepath.Join(cfg.DataDir, "log")
	if err := space.CheckOpen(logDir, profile); err != nil {
		return stores{}, err
	}
	badger, err := badgerlog.Open(badgerlog.Config{
		Dir:     logDir,
		Profile: profile,
		Logger:  logger,
	})
	if err != nil {
		return stores{}, err
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(cfg.DataDir, keepSnapshots, logger)
	if err != nil {
		return stores{}, errors.Join(fmt.Errorf("open the snapshots in %s: %w", cfg.DataDir, err), badger.Close())
	}
	snapshots, err := newGapless(files, badger, cfg.DataDir)
	if err != nil {
		return stores{}, errors.Join(err, badger.Close())
	}
	// The cache spares the disk the reads that replicate and apply what was
	// just written. An agent for development has nobody to replicate to, and what
	// the cache holds stays in memory after the work is done.
	entries := maxAppendEntries
	if cfg.Dev {
		entries = devCachedEntries
	}
	watched := &faults{LogStore: badger, stable: badger, fatal: fatal}
	cached, err := raft.NewLogCache(entries, watched)
	if err != nil {
		return stores{}, errors.Join(err, badger.Close())
	}
	return stores{log: cached, stable: watched, snapshots: snapshots, closer: badger, space: space, faults: watched}, nil
}

func (s stores) close() error {
	if s.closer == nil {
		return nil
	}
	return s.closer.Close()
}
