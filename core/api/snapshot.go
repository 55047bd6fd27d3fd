// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/backup"
)

// Snapshots saves and restores the state of the cluster.
type Snapshots interface {
	SaveSnapshot(ctx context.Context) (*Snapshot, error)
	RestoreSnapshot(ctx context.Context, r io.Reader) error
	// SnapshotSchedule returns the results of the leader's scheduled snapshots. NotFound:
	// its configuration has no snapshot block.
	SnapshotSchedule() (*backup.Status, error)
	// StateDigest returns the digest of this server's own state.
	StateDigest(ctx context.Context) (*StateDigest, error)
}

// StateDigest is a digest of a server's state at an index. Servers of one cluster have
// equal digests at equal indexes.
type StateDigest struct {
	Index  uint64
	Digest string // "sha256:HEX"
}

// Snapshot is a saved state. The caller closes the reader.
type Snapshot struct {
	io.ReadCloser
	Size   int64
	Digest string // "sha-256=BASE64"
	Index  uint64
}

// Limits of snapshot requests.
const (
	maxSnapshotBytes = 16 << 30
	snapshotTime     = 30 * time.Minute
)

func (s *Server) saveSnapshot(w http.ResponseWriter, r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), snapshotTime)
	defer cancel()
	snap, err := s.backend.SaveSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	h := w.Header()
	h.Set("Content-Type", "application/x-gzip")
	h.Set("Content-Length", strconv.FormatInt(snap.Size, 10))
	h.Set("Digest", snap.Digest)
	setReadMeta(w, snap.Index, ReadMeta{KnownLeader: true})
	if _, err := io.Copy(w, snap); err != nil {
		panic(http.ErrAbortHandler) // a truncated snapshot must not look complete
	}
	return done, nil
}

func (s *Server) restoreSnapshot(w http.ResponseWriter, r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), snapshotTime)
	defer cancel()
	if err := s.backend.RestoreSnapshot(ctx, r.Body); err != nil {
		return nil, err
	}
	setIndex(w, s.backend.View().Index())
	return struct{}{}, nil
}

func (s *Server) snapshotSchedule(http.ResponseWriter, *http.Request) (any, error) {
	return s.backend.SnapshotSchedule()
}

// stateDigest answers for the server that receives the request, not for the leader.
func (s *Server) stateDigest(w http.ResponseWriter, r *http.Request) (any, error) {
	digest, err := s.backend.StateDigest(r.Context())
	if err != nil {
		return nil, err
	}
	setIndex(w, digest.Index)
	return digest, nil
}

// UpgradeCheck lists what must change before the legacy Vault workflow is removed.
type UpgradeCheck struct {
	JobsWithoutVaultIdentity []JobListStub
	OutdatedNodes            []*NodeListStub
	VaultTokens              []struct{}
	QueryMeta
}

// vaultUpgradeCheck returns an empty result: Drover never had the legacy workflow.
func vaultUpgradeCheck(_ View, q *query) result {
	return shown(&UpgradeCheck{
		JobsWithoutVaultIdentity: []JobListStub{}, OutdatedNodes: []*NodeListStub{}, VaultTokens: []struct{}{},
		QueryMeta: QueryMeta{Index: q.index, KnownLeader: true},
	})
}
