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

// stores are raft's stores, on disk or in memory.
type stores struct {
	log       raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	closer    io.Closer
	space     *durable.Guard // nil in memory
	faults    *faults        // nil in memory
	growth    *growth        // nil in memory
}

// Reserved disk space: the size by which the memory maps of badger's files may still
// grow, for the memtables and the tables to which they are flushed.
const (
	serverReserve = 128 << 20
	devReserve    = 32 << 20
)

// Reserve returns the free space of the disk below which a server writes nothing to its
// log. What a server can do without must stop writing while there is twice as much.
func Reserve(dev bool) uint64 {
	if dev {
		return devReserve
	}
	return serverReserve
}

func openStores(cfg Config, logger hclog.Logger, fatal func(error)) (stores, error) {
	if cfg.DataDir == "" {
		if cfg.Memory != nil {
			return cfg.Memory.stores(), nil
		}
		return NewMemory().stores(), nil
	}
	profile := badgerlog.ProfileServer
	if cfg.Dev {
		profile = badgerlog.ProfileDev
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return stores{}, fmt.Errorf("make the directory of the log: %w", err)
	}
	space := durable.New(cfg.DataDir, Reserve(cfg.Dev))
	badger, err := badgerlog.Open(badgerlog.Config{
		Dir:     filepath.Join(cfg.DataDir, "log"),
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
	intact, err := newSealed(files, cfg.DataDir)
	if err != nil {
		return stores{}, errors.Join(err, badger.Close())
	}
	snapshots, err := newGapless(intact, badger, cfg.DataDir)
	if err != nil {
		return stores{}, errors.Join(err, badger.Close())
	}
	// The cache saves reads from disk of entries that were just written and are
	// replicated and applied. A development agent does not replicate, and the cache
	// would stay in memory.
	entries := maxAppendEntries
	if cfg.Dev {
		entries = devCachedEntries
	}
	watched := &faults{LogStore: badger, stable: badger, fatal: fatal, room: space.CheckFor, reserve: Reserve(cfg.Dev)}
	counted := newGrowth(watched, cfg.leastGrowth())
	cached, err := raft.NewLogCache(entries, counted)
	if err != nil {
		return stores{}, errors.Join(err, badger.Close())
	}
	return stores{log: cached, stable: watched, snapshots: snapshots, closer: badger, space: space, faults: watched, growth: counted}, nil
}

func (s stores) close() error {
	if s.closer == nil {
		return nil
	}
	return s.closer.Close()
}
