// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package preempt_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/preempt"
)

// bruteForce tries every set and returns the cheapest that suffices.
func bruteForce(holders []preempt.Holder, lacks preempt.Amount, fits func([]preempt.Holder) bool) (best preempt.Set, ok bool) {
	for mask := range 1 << len(holders) {
		s := preempt.Set{}
		musts := true
		for i, h := range holders {
			if mask&(1<<i) != 0 {
				s.Holders = append(s.Holders, h)
				s.Top, s.Sum = max(s.Top, h.Priority), s.Sum+h.Priority
			} else if h.Must {
				musts = false
			}
		}
		freed := s.Freed()
		enough := musts && fits(s.Holders)
		for d := range lacks {
			enough = enough && freed[d] >= lacks[d]
		}
		if enough && (!ok || s.Compare(&best) < 0) {
			best, ok = s, true
		}
	}
	return best, ok
}

func instance(r *rand.Rand, n int) (holders []preempt.Holder, lacks preempt.Amount) {
	for i := range n {
		h := preempt.Holder{Alloc: &model.Allocation{ID: fmt.Sprint("a", i), CreateIndex: uint64(r.IntN(5))}, Priority: 10 * (1 + r.IntN(3)), Must: r.IntN(12) == 0}
		for d := range h.Holds {
			h.Holds[d] = int64(r.IntN(4)) * 100
		}
		holders = append(holders, h)
	}
	for d := range lacks {
		lacks[d] = int64(r.IntN(8)-3) * 100
	}
	return holders, lacks
}

// TestTheSmallestSetIsThatOfBruteForce compares the cost on small instances, where the
// search is exact, without and with a further condition.
func TestTheSmallestSetIsThatOfBruteForce(t *testing.T) {
	var c preempt.Chooser
	solved := 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 3))
		holders, lacks := instance(r, 1+r.IntN(8))
		var fits func([]preempt.Holder) bool
		all := func([]preempt.Holder) bool { return true }
		if seed%2 == 0 { // at least two holders of odd names have to go
			all = func(hs []preempt.Holder) bool {
				odd := 0
				for _, h := range hs {
					odd += int(h.Alloc.ID[1]-'0') & 1
				}
				return odd >= 2
			}
			fits = all
		}
		want, can := bruteForce(holders, lacks, all)
		got, ok := c.Smallest(slices.Clone(holders), lacks, fits)
		if ok != can || got.Compare(&want) != 0 {
			t.Fatalf("seed %d: %v %+v, want %v %+v\nlacks %v of %+v", seed, ok, got, can, want, lacks, holders)
		}
		if len(got.Holders) > 1 {
			solved++
		}
	}
	if solved < 1000 {
		t.Errorf("only %d instances needed more than one alloc", solved)
	}
}

// TestNoneCanBeSparedOfALargeSet checks what the search guarantees where it gives up
// being exact.
func TestNoneCanBeSparedOfALargeSet(t *testing.T) {
	var c preempt.Chooser
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 4))
		holders, lacks := instance(r, 60)
		for i := range holders { // all different
			holders[i].Holds[0] += int64(i)
		}
		for d := range lacks {
			lacks[d] = 2000
		}
		set, ok := c.Smallest(holders, lacks, nil)
		if !ok {
			t.Fatalf("seed %d: no set", seed)
		}
		for i, h := range set.Holders {
			rest := preempt.Set{Holders: slices.Delete(slices.Clone(set.Holders), i, i+1)}
			freed, enough := rest.Freed(), !h.Must
			for d := range lacks {
				enough = enough && freed[d] >= lacks[d]
			}
			if enough {
				t.Errorf("seed %d: %s can be spared", seed, h.Alloc.ID)
			}
		}
	}
}

func TestAmongEqualsTheNewestGoes(t *testing.T) {
	var holders []preempt.Holder
	for i := range 5 {
		holders = append(holders, preempt.Holder{Alloc: &model.Allocation{ID: fmt.Sprint("a", i), CreateIndex: uint64(10 + i%3)}, Priority: 20, Holds: preempt.Amount{500}})
	}
	var c preempt.Chooser
	set, ok := c.Smallest(holders, preempt.Amount{600}, nil)
	if !ok || len(set.Holders) != 2 || set.Holders[0].Alloc.ID != "a2" || set.Holders[1].Alloc.ID != "a1" {
		t.Errorf("%v %+v", ok, set)
	}
}
