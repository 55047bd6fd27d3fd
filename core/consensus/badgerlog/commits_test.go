// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/consensus/badgerlog"
	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

const marked = 400 // entries that were acknowledged

// acknowledged returns the folder of a store that was closed, or that a crash left
// open, after it has acknowledged entries, a vote and a deletion at the front.
func acknowledged(t *testing.T, crash bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	s, err := badgerlog.Open(badgerlog.Config{Dir: dir, Profile: badgerlog.ProfileDev})
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= marked; i += 4 {
		if err := s.StoreLogs(entries(i, i+3, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeleteRange(1, 20); err != nil {
		t.Fatal(err)
	}
	if err := s.SetUint64([]byte("CurrentTerm"), 7); err != nil {
		t.Fatal(err)
	}
	if crash {
		copied := filepath.Join(t.TempDir(), "log")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		mark, err := os.ReadFile(durable.CommitsFile(dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(durable.CommitsFile(copied), mark, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(copied, "LOCK"))
		defer func() { _ = s.Close() }()
		return copied
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func reopen(dir string) (last, term uint64, err error) {
	s, err := badgerlog.Open(badgerlog.Config{Dir: dir, Profile: badgerlog.ProfileDev})
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	if last, err = s.LastIndex(); err != nil {
		return 0, 0, err
	}
	term, err = s.GetUint64([]byte("CurrentTerm"))
	return last, term, err
}

func TestAStoreThatHasLostCommitsDoesNotOpenUntilTheCountIsRemoved(t *testing.T) {
	dir := acknowledged(t, false)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = reopen(dir)
	if !errdefs.IsInternal(err) || !strings.Contains(err.Error(), durable.CommitsFile(dir)) {
		t.Fatalf("a log whose files are gone: %v", err)
	}
	if _, _, err = reopen(dir); err == nil {
		t.Fatal("the second try opens it")
	}
	s, err := badgerlog.Open(badgerlog.Config{Dir: dir, Profile: badgerlog.ProfileDev, Damaged: true})
	if err != nil {
		t.Fatalf("who looks for the fault cannot open it: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(durable.CommitsFile(dir)); err != nil {
		t.Fatal(err)
	}
	if last, _, err := reopen(dir); err != nil || last != 0 {
		t.Fatalf("after the operator has agreed: last index %d, %v", last, err)
	}
}

// TestHostileAFlippedBitIsNeverLessThanWasAcknowledgedWithoutAWord flips one bit in the
// journal that a crash has left, again and again.
func TestHostileAFlippedBitIsNeverLessThanWasAcknowledgedWithoutAWord(t *testing.T) {
	crashed := acknowledged(t, true)
	if last, term, err := reopen(acknowledged(t, true)); err != nil || last != marked || term != 7 {
		t.Fatalf("an undamaged log after a crash: last index %d, term %d, %v", last, term, err)
	}
	journals, err := filepath.Glob(filepath.Join(crashed, "*.mem"))
	if err != nil || len(journals) != 1 {
		t.Fatalf("journals %v, %v", journals, err)
	}
	whole, err := os.ReadFile(journals[0])
	if err != nil {
		t.Fatal(err)
	}
	used := len(strings.TrimRight(string(whole), "\x00"))
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 40 {
		dir := filepath.Join(t.TempDir(), "log")
		if err := os.CopyFS(dir, os.DirFS(crashed)); err != nil {
			t.Fatal(err)
		}
		mark, err := os.ReadFile(durable.CommitsFile(crashed))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(durable.CommitsFile(dir), mark, 0o600); err != nil {
			t.Fatal(err)
		}
		at := r.IntN(used)
		damaged := []byte(string(whole))
		damaged[at] ^= 1 << r.IntN(8)
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(journals[0])), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		last, term, err := reopen(dir)
		if err != nil {
			refused++
		} else if last != marked || term != 7 {
			t.Errorf("a bit of byte %d of %d flipped: the log opens and ends at %d of %d in term %d", at, used, last, marked, term)
		}
	}
	if refused < 20 {
		t.Errorf("%d of 40 damaged logs were refused: the test damages nothing", refused)
	}
}

func TestADamagedCountSaysNothingAboutTheLog(t *testing.T) {
	dir := acknowledged(t, false)
	for _, content := range []string{"", "short", "twelve bytes", "longer than a count is"} {
		if err := os.WriteFile(durable.CommitsFile(dir), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if last, term, err := reopen(dir); err != nil || last != marked || term != 7 {
			t.Errorf("count %q: last index %d, term %d, %v", content, last, term, err)
		}
	}
}

// TestHostileAFlippedBitInATableIsNoOtherEntry flips one bit in a table of a closed log: an
// entry is read as it was written or not at all.
func TestHostileAFlippedBitInATableIsNoOtherAndNoMissingEntry(t *testing.T) {
	closed := acknowledged(t, false)
	tables, err := filepath.Glob(filepath.Join(closed, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables %v, %v", tables, err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		dir := filepath.Join(t.TempDir(), "log")
		if err := os.CopyFS(dir, os.DirFS(closed)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, filepath.Base(tables[r.IntN(len(tables))]))
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := r.IntN(len(b))
		b[at] ^= 1 << r.IntN(8)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := badgerlog.Open(badgerlog.Config{Dir: dir, Profile: badgerlog.ProfileDev})
		if err != nil {
			continue
		}
		for _, want := range entries(21, marked, 100) {
			var got raft.Log
			if err := s.GetLog(want.Index, &got); err != nil || got.Term != want.Term || !bytes.Equal(got.Data, want.Data) {
				t.Errorf("a bit of byte %d of %d flipped: entry %d is read as another, %v", at, len(b), want.Index, err)
			}
		}
		closeStore(t, s)
	}
}
