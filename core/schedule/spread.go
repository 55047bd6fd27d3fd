// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/schedule/rank"
)

// spread converts one block to columns. Values with a target get their percentage of
// the count, the other values share the rest; without targets all share equally.
func (pl *placer) spread(b *model.Spread, rows []int32) *rank.Spread {
	s := &rank.Spread{Value: make([]int32, len(pl.cluster.nodes))}
	index := map[string]int32{}
	for i := range s.Value {
		s.Value[i] = -1
	}
	for _, r := range rows {
		v, ok := feasible.Resolve(b.Attribute, pl.job.Region, pl.cluster.nodes[r])
		if !ok {
			continue
		}
		i, known := index[v]
		if !known {
			i = int32(len(index))
			index[v] = i
		}
		s.Value[r] = i
	}
	s.Desired, s.Used = pl.desired(b, index), make([]int, len(index))
	for a := range pl.remaining() {
		n := pl.view.NodeByID(a.NodeID)
		if n == nil || a.TaskGroup != pl.tg.Name {
			continue
		}
		if v, ok := feasible.Resolve(b.Attribute, pl.job.Region, n); ok {
			if i, known := index[v]; known {
				s.Used[i]++
			}
		}
	}
	return s
}

func (pl *placer) desired(b *model.Spread, index map[string]int32) []float64 {
	out := make([]float64, len(index))
	count, rest, targeted := float64(pl.tg.Count), 100.0, 0
	for _, t := range b.SpreadTarget {
		rest -= float64(t.Percent)
		if i, ok := index[t.Value]; ok {
			out[i] = count * float64(t.Percent) / 100
			targeted++
		}
	}
	others := len(index) - targeted
	if others == 0 || rest <= 0 {
		return out
	}
	isTarget := map[string]bool{}
	for _, t := range b.SpreadTarget {
		isTarget[t.Value] = true
	}
	for v, i := range index {
		if !isTarget[v] {
			out[i] = count * rest / 100 / float64(others)
		}
	}
	return out
}
