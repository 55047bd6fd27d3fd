// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/schedule/rank"
)

// spread converts one block to columns. Values with a target get their percentage of
// the count, the other values share the rest; without targets all share equally.
func (pl *placer) spread(b *model.Spread, rows []int32) *rank.Spread {
	s := &rank.Spread{Value: rank.Indexes(len(pl.cluster.nodes))}
	for i := range s.Value {
		s.Value[i] = none
	}
	index, perNode := map[string]int32{}, feasible.Escapes(b.Attribute)
	values := perKind[int32](pl.cluster)
	for i := range values {
		values[i] = unknown
	}
	for _, r := range rows {
		value := &values[pl.cluster.kinds[r]]
		if *value == unknown || perNode {
			*value = numberOf(index, b.Attribute, pl.job.Region, pl.cluster.nodes[r])
		}
		s.Value[r] = *value
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

// Values of nodes that have none, and of kinds of nodes that were not looked at yet.
const (
	none    = -1
	unknown = -2
)

// numberOf returns the number of a node's value of an attribute.
func numberOf(index map[string]int32, attribute, region string, n *model.Node) int32 {
	v, ok := feasible.Resolve(attribute, region, n)
	if !ok {
		return none
	}
	i, known := index[v]
	if !known {
		i = int32(len(index))
		index[v] = i
	}
	return i
}

// spreadsEscape reports whether a spread is over something that differs between nodes of a
// kind.
func (pl *placer) spreadsEscape() bool {
	escapes := func(b *model.Spread) bool { return feasible.Escapes(b.Attribute) }
	return slices.ContainsFunc(pl.tg.Spreads, escapes) || slices.ContainsFunc(pl.job.Spreads, escapes)
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
