// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/drover-project/drover/internal/testkit/invariants"
)

func text(results []any) string { return fmt.Sprint(results) }

func TestTheSameLogGivesTheSameStateHoweverItIsBatched(t *testing.T) {
	for seed := range uint64(15) {
		log := newWorld(seed).log(t, 300)
		one, many := newFSM(), newFSM()
		rng := rand.New(rand.NewPCG(seed, 5))
		a, b := applyIn(one, log, rng, 1), applyIn(many, log, rng, 64)
		if text(a) != text(b) {
			t.Fatalf("seed %d: results differ by batching", seed)
		}
		if hashOf(t, one) != hashOf(t, many) {
			t.Fatalf("seed %d: states differ by batching", seed)
		}
	}
}

func TestASnapshotAndTheLogBehindItGiveTheStateOfTheWholeLog(t *testing.T) {
	for seed := range uint64(15) {
		log := newWorld(seed).log(t, 300)
		rng := rand.New(rand.NewPCG(seed, 6))
		whole, first, second := newFSM(), newFSM(), newFSM()
		applyIn(whole, log, rng, 16)
		cut := rng.IntN(len(log))
		applyIn(first, log[:cut], rng, 16)
		snap := snapshotOf(t, first)
		if err := second.Restore(bytes.NewReader(snap)); err != nil {
			t.Fatal(err)
		}
		if got := snapshotOf(t, second); !bytes.Equal(got, snap) {
			t.Fatalf("seed %d: a restored state saves to other bytes", seed)
		}
		applyIn(second, log[cut:], rng, 16)
		if hashOf(t, whole) != hashOf(t, second) {
			t.Fatalf("seed %d: restored at %d and replayed, the state differs", seed, cut)
		}
		invariants.Check(t, second.Store().View())
	}
}

func TestWhatIsDerivedIsWhatTheRowsSay(t *testing.T) {
	for seed := range uint64(15) {
		f := newFSM()
		rng := rand.New(rand.NewPCG(seed, 8))
		log := newWorld(seed).log(t, 300)
		for len(log) > 0 {
			n := min(30, len(log))
			applyIn(f, log[:n], rng, 8)
			log = log[n:]
			invariants.Check(t, f.Store().View())
		}
	}
}

func TestDamagedEntriesAndSnapshotsNeverPanic(t *testing.T) {
	f := newFSM()
	w := newWorld(99)
	log := w.log(t, 200)
	applyIn(f, log, w.rng, 8)
	before := hashOf(t, f)
	snap := snapshotOf(t, f)
	for range 3000 {
		i := w.rng.IntN(len(log))
		data := bytes.Clone(log[i].Data)
		if len(data) == 0 {
			continue
		}
		for range 1 + w.rng.IntN(4) {
			data[w.rng.IntN(len(data))] = byte(w.rng.Uint32())
		}
		g := newFSM()
		e := log[i]
		e.Data = data
		g.ApplyBatch(append(log[:3:3], e))
	}
	for range 200 {
		bad := bytes.Clone(snap)
		for range 1 + w.rng.IntN(3) {
			bad[w.rng.IntN(len(bad))] = byte(w.rng.Uint32())
		}
		if w.rng.IntN(2) == 0 {
			bad = bad[:w.rng.IntN(len(bad))]
		}
		if err := newFSM().Restore(bytes.NewReader(bad)); err != nil {
			continue
		}
	}
	for cut := range len(snap) {
		if cut%97 == 0 && f.Restore(bytes.NewReader(snap[:cut])) == nil {
			t.Fatalf("a snapshot cut at %d of %d bytes was accepted", cut, len(snap))
		}
	}
	if hashOf(t, f) != before {
		t.Fatal("a refused snapshot changed the state")
	}
}
