// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rank_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/drover-project/drover/core/schedule/rank"
)

// TestPickerChoosesWhatBruteForceChooses compares the trees with a full scan
// of every row's explained score, over random clusters and random calls.
func TestPickerChoosesWhatBruteForceChooses(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compare(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func compare(t *testing.T, r *rand.Rand) {
	n := 1 + r.IntN(60)
	cols := rank.NewColumns(n)
	rows, affinity := []int32{}, make([]float64, n)
	spreads := make([]*rank.Spread, r.IntN(3))
	for i := range spreads {
		values := 1 + r.IntN(5)
		s := &rank.Spread{Weight: 1 / float64(len(spreads)), Value: make([]int32, n), Desired: make([]float64, values), Used: make([]int, values)}
		for v := range s.Desired {
			s.Desired[v] = float64(r.IntN(20))
		}
		for row := range s.Value {
			s.Value[row] = int32(r.IntN(values+1)) - 1
		}
		spreads[i] = s
	}
	for i := range n {
		cols.Append(rank.Ask{CPU: 1000 + r.Int64N(4000), Memory: 4000, Disk: 10000}, rank.Ask{CPU: r.Int64N(800)})
		if r.IntN(10) > 0 {
			rows = append(rows, int32(i))
		}
		affinity[i] = float64(r.IntN(3)-1) / 2
	}
	ask := rank.Ask{CPU: 100 + r.Int64N(400), Memory: 100, Disk: 10}
	p := rank.NewPicker(cols, rank.Options{
		Ask: ask, Desired: 1 + r.IntN(30), Spreading: r.IntN(2) == 0, Rows: rows, Affinity: affinity, Collisions: make([]int32, n), Spreads: spreads,
	})
	dropped := map[int]bool{}
	for step := range 200 {
		row, score, ok := p.Best()
		want, found := best(p, rows, cols, ask, dropped, len(spreads) > 0)
		if ok != found || ok && math.Abs(score-want) > 1e-9 {
			t.Fatalf("step %d: best is row %d with %f (%v), brute force finds %f (%v)", step, row, score, ok, want, found)
		}
		if !ok {
			return
		}
		switch r.IntN(5) {
		case 0:
			p.Drop(row)
			dropped[row] = true
		case 1:
			p.Penalise(row, r.IntN(2) == 0)
		default:
			p.Take(row)
		}
	}
}

// best scans all rows: the mean of the parts that say something.
func best(p *rank.Picker, rows []int32, cols *rank.Columns, ask rank.Ask, dropped map[int]bool, spread bool) (float64, bool) {
	top, found := math.Inf(-1), false
	for _, row := range rows {
		if dropped[int(row)] || cols.Lacking(int(row), ask) != "" {
			continue
		}
		parts := p.Explain(int(row))
		sum, count := parts[rank.PartBinpack], 1.0
		for _, name := range []string{rank.PartAntiAffinity, rank.PartPenalty, rank.PartAffinity} {
			if parts[name] != 0 {
				sum, count = sum+parts[name], count+1
			}
		}
		if spread {
			sum, count = sum+parts[rank.PartSpread], count+1
		}
		if s := sum / count; s > top {
			top, found = s, true
		}
	}
	return top, found
}
