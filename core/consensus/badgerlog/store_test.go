// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/consensus/badgerlog"
)

func open(t testing.TB, dir string) *badgerlog.Store {
	t.Helper()
	s, err := badgerlog.Open(badgerlog.Config{Dir: dir, Profile: badgerlog.ProfileDev})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func closeStore(t testing.TB, s *badgerlog.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func entry(index uint64, size int) *raft.Log {
	data := bytes.Repeat([]byte{byte(index), byte(index >> 8), 7}, size/3+1)[:size]
	return &raft.Log{Index: index, Term: 1 + index/10, Type: raft.LogCommand, Data: data}
}

func entries(lo, hi uint64, size int) []*raft.Log {
	var out []*raft.Log
	for i := lo; i <= hi; i++ {
		out = append(out, entry(i, size))
	}
	return out
}

func mustStore(t testing.TB, s raft.LogStore, logs []*raft.Log) {
	t.Helper()
	if err := s.StoreLogs(logs); err != nil {
		t.Fatalf("store: %v", err)
	}
}

func bounds(t testing.TB, s raft.LogStore) (first, last uint64) {
	t.Helper()
	first, err := s.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	last, err = s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	return first, last
}

func wantBounds(t testing.TB, s raft.LogStore, first, last uint64) {
	t.Helper()
	if f, l := bounds(t, s); f != first || l != last {
		t.Fatalf("the log holds %d to %d, want %d to %d", f, l, first, last)
	}
}

func TestEveryFieldOfAnEntryIsReadBackAfterReopening(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	want := raft.Log{
		Index: 9, Term: 4, Type: raft.LogConfiguration,
		Data: []byte("data"), Extensions: []byte("ext"),
		AppendedAt: time.Unix(1_700_000_000, 123),
	}
	bare := raft.Log{Index: 10, Term: 4, Type: raft.LogNoop}
	mustStore(t, s, []*raft.Log{&want, &bare})
	closeStore(t, s)

	s = open(t, dir)
	defer closeStore(t, s)
	wantBounds(t, s, 9, 10)
	var got raft.Log
	if err := s.GetLog(9, &got); err != nil {
		t.Fatal(err)
	}
	if got.Index != want.Index || got.Term != want.Term || got.Type != want.Type ||
		!bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Extensions, want.Extensions) || !got.AppendedAt.Equal(want.AppendedAt) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if err := s.GetLog(10, &got); err != nil {
		t.Fatal(err)
	}
	if got.Type != raft.LogNoop || got.Data != nil || got.Extensions != nil || !got.AppendedAt.IsZero() {
		t.Fatalf("an entry without data came back as %+v", got)
	}
}

func TestAMissingEntryIsRaftsErrLogNotFound(t *testing.T) {
	s := open(t, t.TempDir())
	defer closeStore(t, s)
	var log raft.Log
	if err := s.GetLog(1, &log); !errors.Is(err, raft.ErrLogNotFound) {
		t.Fatalf("empty log: %v", err)
	}
	mustStore(t, s, entries(5, 6, 8))
	for _, index := range []uint64{0, 4, 7} {
		if err := s.GetLog(index, &log); !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("entry %d: %v", index, err)
		}
	}
}

func TestAnEntryLargerThanATransactionIsStoredWhole(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	const size = 5<<20 + 17
	mustStore(t, s, []*raft.Log{entry(1, 10), entry(2, size), entry(3, 256<<10), entry(4, 10)})
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	for index, n := range map[uint64]int{1: 10, 2: size, 3: 256 << 10, 4: 10} {
		var got raft.Log
		if err := s.GetLog(index, &got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Data, entry(index, n).Data) {
			t.Fatalf("entry %d of %d bytes came back changed", index, n)
		}
	}
}

func TestAfterAGapTheFirstIndexIsOneThatIsThere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	mustStore(t, s, entries(1, 20, 8))
	mustStore(t, s, entries(100, 110, 8))
	if err := s.DeleteRange(1, 20); err != nil {
		t.Fatal(err)
	}
	wantBounds(t, s, 100, 110)
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	wantBounds(t, s, 100, 110)
}

func TestEntriesOfAnEmptiedLogDoNotComeBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	mustStore(t, s, entries(1, 100, 8))
	if err := s.DeleteRange(1, 100); err != nil {
		t.Fatal(err)
	}
	wantBounds(t, s, 0, 0)
	mustStore(t, s, entries(50, 50, 8))
	wantBounds(t, s, 50, 50)
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	wantBounds(t, s, 50, 50)
}

func TestStableValuesAreReadBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := s.Get([]byte("LastVoteCand")); err == nil || err.Error() != "not found" {
		t.Fatalf("a missing key gave %v; raft expects the text %q", err, "not found")
	}
	if n, err := s.GetUint64([]byte("CurrentTerm")); n != 0 || err != nil {
		t.Fatalf("a missing number gave %d, %v", n, err)
	}
	if err := s.SetUint64([]byte("CurrentTerm"), 12); err != nil {
		t.Fatal(err)
	}
	if err := s.Set([]byte("LastVoteCand"), []byte("n1")); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	if n, err := s.GetUint64([]byte("CurrentTerm")); n != 12 || err != nil {
		t.Fatalf("got %d, %v", n, err)
	}
	if v, err := s.Get([]byte("LastVoteCand")); string(v) != "n1" || err != nil {
		t.Fatalf("got %q, %v", v, err)
	}
}

// TestTheStoreBehavesAsRaftsMemoryStore runs random steps on both stores, as
// raft takes them, reopening ours now and then, and compares everything that
// can be read.
func TestTheStoreBehavesAsRaftsMemoryStore(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			compareWithMemory(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func compareWithMemory(t *testing.T, rng *rand.Rand) {
	dir := t.TempDir()
	ours, theirs := open(t, dir), raft.NewInmemStore()
	defer func() { closeStore(t, ours) }()
	for step := range 40 {
		first, last := bounds(t, theirs)
		switch n := rng.IntN(10); {
		case n < 6 || last == 0:
			// Up to three segments at once; a fresh log may start anywhere.
			from := last + 1
			if last == 0 {
				from = 1 + rng.Uint64N(9000)
			}
			logs := entries(from, from+rng.Uint64N(9_000), 1+rng.IntN(40))
			mustStore(t, ours, logs)
			mustStore(t, theirs, logs)
		case n == 6:
			bothDelete(t, ours, theirs, first, first+rng.Uint64N(last-first+1))
		case n == 7:
			bothDelete(t, ours, theirs, last-min(last-first, rng.Uint64N(3000)), last)
		case n == 8:
			closeStore(t, ours)
			ours = open(t, dir)
		default:
			if rng.IntN(4) == 0 {
				bothDelete(t, ours, theirs, first, last)
			}
		}
		f, l := bounds(t, theirs)
		wantBounds(t, ours, f, l)
		samples := []uint64{f, l, f - 1, l + 1}
		for range 20 {
			samples = append(samples, f+rng.Uint64N(l-f+1))
		}
		for _, index := range samples {
			var a, b raft.Log
			errA, errB := ours.GetLog(index, &a), theirs.GetLog(index, &b)
			if !errors.Is(errA, errB) || a.Term != b.Term || !bytes.Equal(a.Data, b.Data) {
				t.Fatalf("step %d: entry %d is %v, %v; in memory %v, %v", step, index, a, errA, b, errB)
			}
		}
	}
}

func bothDelete(t *testing.T, ours, theirs raft.LogStore, lo, hi uint64) {
	t.Helper()
	for _, s := range []raft.LogStore{ours, theirs} {
		if err := s.DeleteRange(lo, hi); err != nil {
			t.Fatalf("delete %d to %d: %v", lo, hi, err)
		}
	}
}
