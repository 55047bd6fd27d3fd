// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rank

// Spread is one spread block over the rows of a Picker: every row has a value (an
// index), and every value a desired and a current number of allocs.
type Spread struct {
	Weight  float64   // share of this block among all blocks, 0..1
	Value   []int32   // by row; -1: the node has no such attribute
	Desired []float64 // by value
	Used    []int     // by value
}

// score returns the part for one more alloc on a value: 1 far below the desired
// number, 0 when it reaches it, negative above it.
func (s *Spread) score(value int32) float64 {
	if value < 0 {
		return -s.Weight
	}
	want := s.Desired[value]
	if want <= 0 {
		return -s.Weight
	}
	return s.Weight * (want - float64(s.Used[value]+1)) / want
}
