// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package durable_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

func put(t *testing.T, db *durable.DB, key string) {
	t.Helper()
	if err := db.Write(func(b *badger.WriteBatch) error { return b.Set([]byte(key), []byte(key)) }); err != nil {
		t.Fatal(err)
	}
}

func get(db *durable.DB, key string) error {
	return db.View(func(tx *badger.Txn) error { _, err := tx.Get([]byte(key)); return err })
}

func TestAnIdleStoreRestsAndTheNextUseFindsEverything(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for i := range 20 { // more tables than badger leaves unmerged
		put(t, db, fmt.Sprint(i))
		if !db.PassTime() {
			t.Fatalf("round %d: the store does not rest", i)
		}
		if journals, err := filepath.Glob(filepath.Join(dir, "*.mem")); err != nil || len(journals) > 0 {
			t.Errorf("round %d: at rest it has the journals %v, %v", i, journals, err)
		}
		if err := get(db, fmt.Sprint(i/2)); err != nil {
			t.Errorf("round %d: %v", i, err)
		}
	}
	if !db.PassTime() {
		t.Fatal("the store does not rest")
	}
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // what is on the disk if the process is killed at rest
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, copied} {
		db := open(t, dir)
		for i := range 20 {
			if err := get(db, fmt.Sprint(i)); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAStoreAtRestStaysLocked(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	if !db.PassTime() {
		t.Fatal("the store does not rest")
	}
	if _, err := durable.Open(dir, durable.ProfileDev, hclog.NewNullLogger()); !errdefs.IsUnavailable(err) {
		t.Errorf("opened twice: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(func(*badger.WriteBatch) error { return nil }); !errdefs.IsUnavailable(err) {
		t.Errorf("a closed store is used: %v", err)
	}
	if err := open(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreDoesNotRestWhileItIsUsed(t *testing.T) {
	db := open(t, t.TempDir())
	put(t, db, "k")
	err := db.View(func(tx *badger.Txn) error {
		if db.PassTime() {
			t.Error("the store rests under a transaction")
		}
		if err := get(db, "k"); err != nil { // a use within a use does not wait for its end
			return err
		}
		_, err := tx.Get([]byte("k"))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAServersStoreDoesNotRest(t *testing.T) {
	db, err := durable.Open(t.TempDir(), durable.ProfileServer, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, "k")
	if db.PassTime() {
		t.Error("it rests")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRestsBetweenManyUsersLoseNothing(t *testing.T) {
	const users, writes = 8, 30
	dir := t.TempDir()
	db := open(t, dir)
	var working, resting sync.WaitGroup
	done := make(chan struct{})
	resting.Go(func() {
		for rests := 0; ; {
			if db.PassTime() {
				rests++
			}
			select {
			case <-done:
				t.Logf("%d rests", rests)
				return
			default:
			}
		}
	})
	for u := range users {
		working.Go(func() {
			for i := range writes {
				key := fmt.Sprint(u, "/", i)
				if err := db.Write(func(b *badger.WriteBatch) error { return b.Set([]byte(key), nil) }); err != nil {
					t.Error(err)
				}
				if err := get(db, key); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
		})
	}
	working.Wait()
	close(done)
	resting.Wait()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir)
	for u := range users {
		for i := range writes {
			if err := get(db, fmt.Sprint(u, "/", i)); err != nil {
				t.Errorf("%d/%d: %v", u, i, err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreThatWasDamagedAtRestSaysSo(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	put(t, db, "k")
	if !db.PassTime() {
		t.Fatal("the store does not rest")
	}
	if err := os.Remove(filepath.Join(dir, badger.ManifestFilename)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := get(db, "k"); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("read from a damaged store: %v", err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
