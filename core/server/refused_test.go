// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// refused starts a server on a directory, which must fail with words.
func refused(t *testing.T, what, dir string, words ...string) {
	t.Helper()
	_, err := startOnce(t, dir)
	if !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("%s: %v", what, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v; want %q in it", what, err, w)
		}
	}
}

func TestAServerWithoutTheKeyOfItsVariablesDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	inDir(t, dir, func(t *testing.T, c *testkit.Cluster) {
		c.Must("PUT", "/v1/var/app/db", `{"Items":{"password":"hunter2"}}`, nil)
	})
	file := filepath.Join(dir, keyring.FileName)
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	refused(t, "without the file", dir, file+" is missing", "restore it from a backup", "remove-peer")
	if err := os.WriteFile(file, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, "with a damaged file", dir, file, "holds no private X25519 key")
	if err := os.WriteFile(file, right, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := startOnce(t, dir); err != nil {
		t.Errorf("with the right file: %v", err)
	}
}

func TestAServerWithoutTheSnapshotBeforeItsLogDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	cfg := server.Config{DataDir: dir, SnapshotThreshold: 5, TrailingLogs: 2}
	t.Run("", func(t *testing.T) {
		c := testkit.StartWith(t, cfg)
		for range 20 {
			c.Must("PUT", "/v1/var/app/db", `{"Items":{"password":"hunter2"}}`, nil)
		}
		c.Ask("GET", "/v1/operator/snapshot", nil) // takes one
	})
	snapshots := filepath.Join(dir, "raft", "snapshots")
	if err := os.Rename(snapshots, snapshots+".away"); err != nil {
		t.Fatal(err)
	}
	refused(t, "without the snapshots", dir, "no snapshot in", "restore a snapshot")
	if err := os.RemoveAll(snapshots); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(snapshots+".away", snapshots); err != nil {
		t.Fatal(err)
	}
	if _, err := startOnce(t, dir); err != nil {
		t.Errorf("with them: %v", err)
	}
}
