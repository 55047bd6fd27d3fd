// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/consensus/badgerlog"
)

// stores is what raft keeps on disk, or in memory for a server without one.
type stores struct {
	log       raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	closer    io.Closer
}

func openStores(cfg Config, logger hclog.Logger) (stores, error) {
	if cfg.DataDir == "" {
		memory := raft.NewInmemStore()
		return stores{log: memory, stable: memory, snapshots: raft.NewInmemSnapshotStore()}, nil
	}
	profile := badgerlog.ProfileServer
	if cfg.Dev {
		profile = badgerlog.ProfileDev
	}
	badger, err := badgerlog.Open(badgerlog.Config{
		Dir:     filepath.Join(cfg.DataDir, "log"),
		Profile: profile,
		Logger:  logger,
	})
	if err != nil {
		return stores{}, err
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(cfg.DataDir, keepSnapshots, logger)
	if err != nil {
		return stores{}, errors.Join(fmt.Errorf("open the snapshots in %s: %w", cfg.DataDir, err), badger.Close())
	}
	// The cache spares the disk the reads that replicate and apply what was
	// just written.
	cached, err := raft.NewLogCache(maxAppendEntries, badger)
	if err != nil {
		return stores{}, errors.Join(err, badger.Close())
	}
	return stores{log: cached, stable: badger, snapshots: snapshots, closer: badger}, nil
}

func (s stores) close() error {
	if s.closer == nil {
		return nil
	}
	return s.closer.Close()
}
