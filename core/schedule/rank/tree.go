// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rank

import "math"

var none = math.Inf(-1)

// tree is a tournament tree: the root is the best leaf, and a change of a leaf costs
// log n. Between equal leaves the first wins, so choices are repeatable.
type tree struct {
	size   int // leaves, a power of two
	value  []float64
	winner []int32 // winner[1] is the best leaf
}

func newTree(n int) *tree {
	size := 1
	for size < n {
		size *= 2
	}
	t := &tree{size: size, value: values.get(size), winner: indexes.get(2 * size)}
	for i := range t.value {
		t.value[i] = none
		t.winner[size+i] = int32(i)
	}
	return t
}

// build computes all matches after leaves were set directly.
func (t *tree) build() {
	for i := t.size - 1; i >= 1; i-- {
		t.play(i)
	}
}

func (t *tree) play(i int) {
	l, r := t.winner[2*i], t.winner[2*i+1]
	if t.value[r] > t.value[l] {
		l = r
	}
	t.winner[i] = l
}

func (t *tree) set(leaf int, v float64) {
	t.value[leaf] = v
	for i := (t.size + leaf) / 2; i >= 1; i /= 2 {
		t.play(i)
	}
}

// best returns the best leaf and its value; none if every leaf is excluded.
func (t *tree) best() (int, float64) {
	w := t.winner[1]
	return int(w), t.value[w]
}
