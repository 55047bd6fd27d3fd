// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Badger opens its files through memory maps, so on a disk without room the process would end
// with SIGBUS, whichever package opened the store.
func TestAStoreOnADiskWithoutRoomIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	for name, open := range map[string]func(string, durable.Profile, hclog.Logger) (*durable.DB, error){
		"Open": durable.Open, "OpenDamaged": durable.OpenDamaged,
	} {
		db, err := open(filepath.Join(dir, "store"), durable.ProfileDev, hclog.NewNullLogger())
		if !errdefs.IsResourceExhausted(err) || !strings.Contains(err.Error(), "free some space") {
			t.Errorf("%s: %v, want that the disk is full and the cure", name, err)
		}
		if err == nil {
			_ = db.Close()
		}
	}
}

// Badger flushes its memtable through a memory map when it closes, which on a full disk ends
// the process with SIGBUS.
func TestAStoreOnAFullDiskIsNotClosedAndLosesNothing(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	dir, filler := filepath.Join(disk, "store"), filepath.Join(disk, "filler")
	db, err := durable.Open(dir, durable.ProfileDev, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Write(func(b *badger.WriteBatch) error { return b.Set([]byte("k"), []byte("v")) }); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filler, make([]byte, 64<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := db.Close(); !errdefs.IsResourceExhausted(err) {
		t.Errorf("closed on a full disk: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = durable.Open(dir, durable.ProfileDev, hclog.NewNullLogger()); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *badger.Txn) error { _, err := tx.Get([]byte("k")); return err }); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
