// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rank

import (
	"math/bits"
	"sync"
)

// scratch keeps arrays of finished decisions for later ones: with 10,000 nodes a decision
// needs a megabyte of them, which nobody sees after it. The garbage collector takes what is
// not used.
type scratch[T any] struct {
	pools [maxClass + 1]sync.Pool // by the power of two that is the capacity
}

// maxClass is the class of the largest arrays that are kept.
const maxClass = 24

// get returns an array of n zeros.
func (s *scratch[T]) get(n int) []T {
	class := bits.Len(uint(max(n-1, 0)))
	if class > maxClass {
		return make([]T, n)
	}
	if b, ok := s.pools[class].Get().(*[]T); ok {
		out := (*b)[:n]
		clear(out)
		return out
	}
	return make([]T, n, 1<<class)
}

// put takes an array back, which nobody may use any more.
func (s *scratch[T]) put(b []T) {
	if class := bits.Len(uint(cap(b))) - 1; class >= 0 && class <= maxClass && cap(b) == 1<<class {
		s.pools[class].Put(&b)
	}
}

var (
	columns scratch[int64]
	values  scratch[float64]
	indexes scratch[int32]
	marks   scratch[uint8]
)

// Release gives the columns back. They and the Pickers on them must not be used any more.
func (c *Columns) Release() {
	columns.put(c.all)
	*c = Columns{}
}

// Indexes returns an array of n zeros: for the Rows, Collisions or Values of a Picker, which
// gives it back, or for others, who call GiveIndexes.
func Indexes(n int) []int32 { return indexes.get(n) }

// GiveIndexes takes an array of Indexes back, which nobody may use any more.
func GiveIndexes(b []int32) { indexes.put(b) }

// Release gives the arrays of the picker back, and those of its options that come from
// Indexes. It must not be used any more.
func (p *Picker) Release() {
	for _, t := range p.trees {
		t.release()
	}
	p.top.release()
	indexes.put(p.cellOf)
	indexes.put(p.leafOf)
	indexes.put(p.rows)
	marks.put(p.marks)
	marks.put(p.parts)
	for _, s := range p.o.Spreads {
		indexes.put(s.Value)
	}
	indexes.put(p.o.Rows)
	indexes.put(p.o.Collisions)
	*p = Picker{}
}

func (t tree) release() {
	values.put(t.value)
	indexes.put(t.winner)
}
