// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volumes_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

// TestAVolumeGoesFromAllocToAllocWhateverFails plays DROVER_SIM_SEEDS seeds (12), or
// DROVER_SIM_SEED alone.
func TestAVolumeGoesFromAllocToAllocWhateverFails(t *testing.T) {
	from, seeds := number("DROVER_SIM_SEED", 0), number("DROVER_SIM_SEEDS", 12)
	if os.Getenv("DROVER_SIM_SEED") != "" {
		seeds = 1
	}
	for seed := from; seed < from+seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { play(newWorld(t, dir, seed)) })
		})
	}
}

func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

const moves = 25

// play moves the writer of a volume from node to node, while everything fails.
func play(w *world) {
	var last *life
	for i := range moves {
		n := w.nodes[w.n(len(w.nodes))]
		if w.isDown(n) {
			n.registers(model.NodeStatusReady)
		}
		a := &life{n: n, id: fmt.Sprint("a", i), stopped: make(chan struct{})}
		w.place(a, last)
		n.gets(a)
		if last != nil {
			close(last.stopped)
		}
		last = a
		time.Sleep(w.upTo(40 * time.Second))
		w.trouble(last.n)
	}
	close(last.stopped)
	w.calm.Store(true)
	for _, n := range w.nodes {
		n.leaves(false)
		if w.isDown(n) {
			n.registers(model.NodeStatusReady)
		}
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	w.check()
	w.stop()
	for _, n := range w.nodes {
		n.end()
	}
}

func (w *world) isDown(n *node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down[n.id]
}

// trouble kills something, or nothing.
func (w *world) trouble(n *node) {
	switch w.n(6) {
	case 0:
		n.restarts(w.upTo(20 * time.Second))
	case 1:
		w.lead()
	case 2:
		n.leaves(true)
		time.Sleep(w.upTo(30 * time.Second))
		n.leaves(false)
	case 3: // servers have lost it, and its alloc
		n.registers(model.NodeStatusDown)
		for _, a := range n.allocs {
			if x := w.store.View().AllocByID(a.id); x != nil && !x.ClientTerminalStatus() {
				lost := &model.Allocation{ID: a.id, ClientStatus: model.AllocClientStatusLost}
				w.must(&fsm.UpdateAllocsFromClient{At: 1, Reports: []*model.AllocReport{lost.ReportSince(nil)}})
			}
		}
	}
}

// place places an alloc in the place of the one before.
func (w *world) place(a, before *life) {
	x := &model.Allocation{ID: a.id, Name: "j.g[0]", Namespace: "default", JobID: "j", TaskGroup: "g", NodeID: a.n.id, ClientStatus: model.AllocClientStatusPending, DesiredStatus: "run"}
	if before != nil {
		x.PreviousAllocation = before.id
	}
	at := w.store.View().Index()
	w.must(&fsm.ApplyPlan{VerifiedIndex: at, Plan: &model.Plan{Namespace: "default", JobID: "j", SnapshotIndex: at, Place: []*model.Allocation{x}}})
}

// check looks what is left an hour after everything has ended.
func (w *world) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if left := w.store.View().CSIVolumeByID("default", "db").Attachments; len(left) > 0 || len(w.attached) > 0 {
		w.Errorf("state has the attachments %+v, and the storage system %v", left, w.attached)
	}
	if holders := w.store.View().CSIVolumeHolders("default", "db"); len(holders) > 0 {
		w.Errorf("%d allocs hold the volume, %s among them", len(holders), holders[0].ID)
	}
	for _, n := range w.nodes {
		if has := n.has(); has != "" {
			w.Errorf("%s has the volume: %s", n.id, has)
		}
		for _, a := range n.allocs {
			if !a.over {
				w.Errorf("alloc %s of %s has not ended: holds %t, ready %t, last error %v", a.id, n.id, a.holds, a.ready, a.failed)
			}
		}
	}
	w.Logf("calls and faults: %v", w.faults)
}
