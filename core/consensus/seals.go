// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Names of files in the directory of a snapshot. Raft writes the first, with the members of
// the cluster and a checksum of the state, but none of itself.
const (
	metaFile = "meta.json"
	sealFile = "meta.sum"
)

// sealed is a store of snapshots with a checksum of each one's metadata. A flipped bit in the
// name of a member would otherwise make a server that starts and never votes. A snapshot
// without a checksum, of an earlier version or of a process that was killed, is accepted.
type sealed struct {
	raft.SnapshotStore
	dir string // of the snapshots
}

// newSealed checks the metadata of all snapshots in the data directory of a log.
func newSealed(snapshots raft.SnapshotStore, dataDir string) (*sealed, error) {
	dir := filepath.Join(dataDir, "snapshots")
	seals, err := filepath.Glob(filepath.Join(dir, "*", sealFile))
	if err != nil {
		return nil, fmt.Errorf("list the snapshots in %s: %w", dir, err)
	}
	for _, seal := range seals {
		if err := checkSeal(seal); err != nil {
			return nil, err
		}
	}
	return &sealed{SnapshotStore: snapshots, dir: dir}, nil
}

func checkSeal(seal string) error {
	written, err := os.ReadFile(seal)
	if err != nil {
		return fmt.Errorf("read the checksum of a snapshot: %w", err)
	}
	meta := filepath.Join(filepath.Dir(seal), metaFile)
	sum, err := sumOf(meta)
	if err == nil && sum != strings.TrimSpace(string(written)) {
		err = errors.New("it does not have the checksum in " + sealFile)
	}
	if err != nil {
		return errdefs.FailedPreconditionf("the metadata of a snapshot, %s, are damaged: put %s back from a backup, or start with an empty data directory and restore a snapshot: %w", meta, filepath.Dir(seal), err)
	}
	return nil
}

func sumOf(file string) (string, error) {
	raw, err := os.ReadFile(file)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

// Create implements raft.SnapshotStore.
func (s *sealed) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, members, membersIndex, trans)
	if err != nil {
		return nil, err
	}
	return &sealing{SnapshotSink: sink, dir: s.dir}, nil
}

// sealing writes the checksum once the snapshot is complete.
type sealing struct {
	raft.SnapshotSink
	dir string
}

// Close implements io.Closer.
func (s *sealing) Close() error {
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, s.ID())
	sum, err := sumOf(filepath.Join(dir, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was cancelled
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, sealFile), []byte(sum+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the checksum of the snapshot %s: %w", s.ID(), err)
	}
	return nil
}
