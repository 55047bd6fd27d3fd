// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
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

// everyLog returns a log with commands of every kind: some hang together, some are filled at
// random, and some write variables. Those that were applied without an error are counted.
func everyLog(t *testing.T, seed uint64, n int, applied map[byte]int) []fsm.Entry {
	t.Helper()
	w := newWorld(seed)
	kinds := everyCommand()
	var entries []fsm.Entry
	add := func(c fsm.Command) {
		data, err := fsm.Encode(c)
		if err != nil {
			return // it does not get into a log
		}
		e := fsm.Entry{Index: uint64(2 + len(entries)), Data: data}
		entries = append(entries, e)
		switch err, failed := w.f.ApplyBatch([]fsm.Entry{e})[0].(error); {
		case errors.Is(err, fsm.ErrPanicked):
			t.Logf("seed %d, index %d: %v", seed, e.Index, err)
		case !failed:
			applied[fsm.Kind(c)]++
		}
	}
	if seed%2 == 1 { // many commands need level 2
		add(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
		add(&fsm.RaiseLevel{Level: fsm.Level})
		add(&fsm.UpsertServerKey{Key: &model.ServerKey{ServerID: "s1", Public: []byte("public")}})
		add(&fsm.UpsertRootKey{Key: &model.RootKey{KeyID: "k1", State: model.RootKeyInactive}})
		add(&fsm.RegisterNode{Node: &model.Node{ID: "serving", Status: model.NodeStatusReady, HostVolumes: map[string]*model.HostVolumeConfig{"data": {ID: "v1"}}}})
		add(&fsm.PutHostVolume{Volume: &model.HostVolume{ID: "v1", Name: "data", Namespace: "default", NodeID: "serving"}, New: true})
		add(&fsm.PutCSIVolume{Volume: &model.CSIVolume{ID: "data", Namespace: "default", PluginID: "p"}, New: true})
		served := testJob("served", 1)
		served.TaskGroups[0].Volumes = map[string]*model.VolumeRequest{"v": {Type: "host", Source: "data", Sticky: true}}
		add(&fsm.UpsertJob{Job: served})
		at := w.f.Store().View().Index()
		add(&fsm.ApplyPlan{VerifiedIndex: at, Plan: &model.Plan{Namespace: "default", JobID: "served", SnapshotIndex: at, Place: []*model.Allocation{
			{ID: "served", Name: "served.web[0]", NodeID: "serving", TaskGroup: "web"},
		}}})
		add(fsm.NewReportAllocs(w.f.Store().View(), 1, []*model.AllocReport{{ID: "served", ClientStatus: model.AllocClientStatusRunning}}, nil))
	}
	for turn := int(seed) * n / 2; len(entries) < n; turn++ {
		w.index = w.f.Store().View().Index()
		c := w.next()
		for _, before := range w.between {
			add(before)
		}
		w.between = nil
		add(c)
		add(filler{w}.any(kinds, turn))
		add(w.variable())
	}
	return entries
}

// TestTheStateDependsOnNothingButTheLog guards against servers whose states diverge. It
// applies logs with every kind of command in one piece, in batches, and by a server that is
// saved and restored at any place or at every place.
func TestTheStateDependsOnNothingButTheLog(t *testing.T) {
	const length = 90
	for seed := range uint64(everySeeds(t)) {
		log := everyLog(t, seed, length, map[byte]int{})
		h := newHistory(t, log)
		rng := rand.New(rand.NewPCG(seed, 9))
		whole, parts, reborn := newFSM(), newFSM(), newFSM()
		h.follows(whole, log, len(log))
		for rest := log; len(rest) > 0; {
			n := min(1+rng.IntN(12), len(rest))
			h.follows(parts, rest[:n], n)
			rest = rest[n:]
		}
		for i := range log {
			h.follows(reborn, log[i:i+1], 1)
			saved := snapshotOf(t, reborn)
			reborn = newFSM()
			if err := reborn.Restore(bytes.NewReader(saved)); err != nil {
				t.Fatalf("seed %d: restoring the state at %d: %v", seed, i, err)
			}
			h.same("restored", reborn)
			if i%4 != int(seed%4) {
				continue
			}
			late := newFSM()
			if err := late.Restore(bytes.NewReader(saved)); err != nil {
				t.Fatal(err)
			}
			h.follows(late, log[i+1:], 1+rng.IntN(20))
		}
		h.unchanged()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// everySeeds returns how many logs to play: DROVER_FSM_SEEDS, or a few.
func everySeeds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DROVER_FSM_SEEDS")
	if text == "" {
		return 4
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("DROVER_FSM_SEEDS=%s: give a number of logs", text)
	}
	return n
}

// TestTheRandomLogsHaveEveryCommand plays logs until each command was applied. A command
// whose words are known is within 60 logs or so; a field more changes in which.
func TestTheRandomLogsHaveEveryCommand(t *testing.T) {
	const most = 1000
	applied, left := map[byte]int{}, everyCommand()
	for seed := uint64(0); seed < most && len(left) > 0; seed++ {
		everyLog(t, seed, 120, applied)
		left = slices.DeleteFunc(left, func(c fsm.Command) bool { return applied[fsm.Kind(c)] > 0 })
	}
	for _, c := range left {
		t.Errorf("in %d logs no %T was applied without an error: its words are missing in anycommand_test.go", most, c)
	}
}

// told returns a result in words.
func told(result any) string {
	if err, ok := result.(error); ok {
		return err.Error()
	}
	data, err := json.Marshal(result)
	return fmt.Sprint(string(data), err)
}

// history is what one server has had after each entry of a log.
type history struct {
	t       *testing.T
	views   map[uint64]*state.View
	digests map[uint64]string
	results map[uint64]string
}

func newHistory(t *testing.T, log []fsm.Entry) *history {
	h := &history{t: t, views: map[uint64]*state.View{}, digests: map[uint64]string{}, results: map[uint64]string{}}
	f := newFSM()
	for _, e := range log {
		h.results[e.Index] = told(f.ApplyBatch([]fsm.Entry{e})[0])
		at := f.Store().View().Index()
		h.views[at], h.digests[at] = f.Store().View(), hashOf(t, f)
	}
	return h
}

// follows applies entries, some at a time, and compares the state after each time.
func (h *history) follows(f *fsm.FSM, log []fsm.Entry, most int) {
	h.t.Helper()
	for len(log) > 0 {
		n := min(most, len(log))
		for i, result := range f.ApplyBatch(log[:n]) {
			if got := told(result); got != h.results[log[i].Index] {
				h.t.Errorf("the result of %d is %s, and %s elsewhere", log[i].Index, got, h.results[log[i].Index])
			}
		}
		h.same("applied", f)
		log = log[n:]
	}
}

func (h *history) same(what string, f *fsm.FSM) {
	h.t.Helper()
	if at := f.Store().View().Index(); h.digests[at] != hashOf(h.t, f) {
		h.t.Errorf("%s up to %d, the state differs", what, at)
	}
}

// unchanged checks that nobody has changed a view after it was published.
func (h *history) unchanged() {
	h.t.Helper()
	for at, view := range h.views {
		digest, err := fsm.Digest(h.t.Context(), view)
		if err != nil {
			h.t.Fatal(err)
		}
		if digest != h.digests[at] {
			h.t.Errorf("the view of the state at %d was changed later", at)
		}
	}
}
