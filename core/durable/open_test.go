// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// filled returns the directory of a closed store with a table, which holds the key k.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	db := open(t, dir)
	err := db.Write(func(b *badger.WriteBatch) error { return b.Set([]byte("k"), []byte("value")) })
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if len(tables(t, dir)) != 1 {
		t.Fatalf("the store has the tables %v", tables(t, dir))
	}
	return dir
}

func open(t *testing.T, dir string) *durable.DB {
	t.Helper()
	db, err := durable.Open(dir, durable.ProfileDev, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func tables(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestATableThatAKilledProcessDidNotFinishIsIgnored(t *testing.T) {
	for _, size := range []int64{0, 3, 1 << 20} { // made, begun, and of its size but without its contents
		dir := filled(t)
		unfinished := filepath.Join(dir, fmt.Sprintf("%06d.sst", 14))
		if err := os.WriteFile(unfinished, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		db := open(t, dir)
		if err := db.View(func(tx *badger.Txn) error { _, err := tx.Get([]byte("k")); return err }); err != nil {
			t.Errorf("%d bytes: what was there before: %v", size, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(unfinished); !os.IsNotExist(err) {
			t.Errorf("%d bytes: the unfinished table stays: %v", size, err)
		}
	}
}

// On a busy machine, badger takes its time until it has removed the file of a table that it
// has merged.
func TestATableThatIsMergedWhileTheStoreOpensIsNotCalledDamagedHoweverLongItsFileStays(t *testing.T) {
	dir := filled(t)
	db := open(t, dir)
	defer db.Close()
	whole := tables(t, dir)
	merged := filepath.Join(dir, fmt.Sprintf("%06d.sst", 14))
	data, err := os.ReadFile(whole[0])
	if err == nil {
		err = os.WriteFile(merged, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Unread(append(whole, merged)); err != nil {
		t.Error(err)
	}
}

// zeroEnd overwrites the end of a file with zeros.
func zeroEnd(file string, n int64) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if err := os.Truncate(file, info.Size()-n); err != nil {
		return err
	}
	return os.Truncate(file, info.Size())
}

func TestAStoreWithADamagedTableOrWithoutItsManifestIsNotOpened(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"table cut off":           func(dir string) error { return os.Truncate(tables(t, dir)[0], 3) },
		"table ending with zeros": func(dir string) error { return zeroEnd(tables(t, dir)[0], 9) },
		"table missing":           func(dir string) error { return os.Remove(tables(t, dir)[0]) },
		"manifest missing":        func(dir string) error { return os.Remove(filepath.Join(dir, badger.ManifestFilename)) },
		"manifest damaged": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, badger.ManifestFilename), []byte("something else"), 0o600)
		},
	} {
		dir := filled(t)
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		before := len(tables(t, dir))
		db, err := durable.Open(dir, durable.ProfileDev, hclog.NewNullLogger())
		if err == nil {
			_ = db.Close()
			t.Errorf("%s: it is opened", name)
		} else if !errdefs.IsFailedPrecondition(err) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(tables(t, dir)); n != before {
			t.Errorf("%s: %d tables of %d are left", name, n, before)
		}
	}
}

// filesOf returns the files of a store by name.
func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		if out[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestHoweverAFileIsDamagedTheStoreIsWholeOrSaysThatItIsDamaged(t *testing.T) {
	whole := filesOf(t, filled(t))
	damages := map[string]func(file string, b []byte) error{
		"removed":     func(file string, _ []byte) error { return os.Remove(file) },
		"emptied":     func(file string, _ []byte) error { return os.Truncate(file, 0) },
		"zeros":       func(file string, b []byte) error { return os.WriteFile(file, make([]byte, len(b)), 0o600) },
		"a directory": func(file string, _ []byte) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
	}
	for percent := 0; percent < 100; percent += 11 {
		damages[fmt.Sprintf("a bit after %d %%", percent)] = func(file string, b []byte) error {
			b[len(b)*percent/100] ^= 0x10
			return os.WriteFile(file, b, 0o600)
		}
		damages[fmt.Sprintf("cut after %d %%", percent)] = func(file string, b []byte) error {
			return os.Truncate(file, int64(len(b)*percent/100))
		}
	}
	for name := range whole {
		for how, damage := range damages {
			dir := t.TempDir()
			for name, b := range whole {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := damage(filepath.Join(dir, name), bytes.Clone(whole[name])); err != nil {
				t.Fatal(err)
			}
			db, err := durable.Open(dir, durable.ProfileDev, hclog.NewNullLogger())
			if errdefs.IsFailedPrecondition(err) {
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", name, how, err)
				continue
			}
			err = db.View(func(tx *badger.Txn) error { _, err := tx.Get([]byte("k")); return err })
			// A manifest whose last entry is cut off, or seems to be, is as after a crash: CountCommits notices that.
			if err != nil && name != badger.ManifestFilename {
				t.Errorf("%s, %s: what was there before: %v", name, how, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAFileThatAKilledProcessHasJustMadeForValuesIsNoDamage(t *testing.T) {
	dir := filled(t)
	if err := os.WriteFile(filepath.Join(dir, "000009.vlog"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
}

// A store that an agent with larger memtables has left, after a kill and, cut off at its end,
// after a kill while it was read again.
func TestAJournalOfALargerMemtableIsRead(t *testing.T) {
	for _, cut := range []bool{false, true} {
		dir, killed := t.TempDir(), t.TempDir()
		opts := durable.Options(dir, durable.ProfileDev, hclog.NewNullLogger()).WithMemTableSize(8 << 20)
		db, err := badger.Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		batch := db.NewWriteBatch()
		const values = 40_000 // of which the index takes as much as the values
		for i := range values {
			if err := batch.Set(fmt.Appendf(nil, "k%06d", i), make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if err := batch.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(killed, "LOCK")); err != nil {
			t.Fatal(err)
		}
		if cut {
			cutJournals(t, killed)
		}
		again := open(t, killed)
		found := 0
		err = again.View(func(tx *badger.Txn) error {
			it := tx.NewIterator(badger.DefaultIteratorOptions)
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				found++
			}
			return nil
		})
		if err != nil || found != values {
			t.Errorf("cut %v: %d of %d values, %v", cut, found, values, err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// cutJournals cuts journals to their contents.
func cutJournals(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(files) == 0 {
		t.Fatalf("journals %v, %v", files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, bytes.TrimRight(b, "\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
