// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestASnapshotWithOtherMetadataThanWereWrittenIsRefused(t *testing.T) {
	dir := t.TempDir()
	cfg := consensus.Config{NodeID: "a", DataDir: dir, Dev: true, Machine: &words{}}
	n := openNode(t, cfg)
	eventually(t, "the only server leads", n.IsLeader)
	propose(t, n, "one")
	_, r, err := n.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	closeNode(t, n)
	found, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "meta.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("snapshots %v, %v", found, err)
	}
	meta, seal := found[0], filepath.Join(filepath.Dir(found[0]), "meta.sum")
	whole, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		n, err := consensus.Open(cfg)
		if err == nil {
			closeNode(t, n)
		}
		if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "put "+filepath.Dir(meta)+" back from a backup") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range whole { // a bit of each byte
		if err := os.WriteFile(meta, bytes.Join([][]byte{whole[:i], {whole[i] ^ 1<<(i%8)}, whole[i+1:]}, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		refused("a flipped bit")
	}
	if err := os.Remove(meta); err != nil {
		t.Fatal(err)
	}
	refused("no metadata")
	if err := os.WriteFile(meta, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	// Snapshots of earlier versions have no checksum.
	for _, what := range []string{"as it was written", "without a checksum"} {
		n := openNode(t, cfg)
		if n.AppliedIndex() == 0 {
			t.Errorf("%s: nothing was restored", what)
		}
		closeNode(t, n)
		if err := os.RemoveAll(seal); err != nil {
			t.Fatal(err)
		}
	}
}
