// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rank

import "math"

var none = math.Inf(-1)

// tree is a tournament tree: the root is the best leaf, and a change of a leaf costs
// log n. Between equal leaves the first wins, so choices are repeatable.
type tree struct {
	value  []float64 // of the leaves, whose number is a power of two
	winner []int32   // winner[1] is the best leaf
}

// sizeOf returns how many leaves a tree has that n leaves fit into.
func sizeOf(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}

// newTree returns the arrays of trees with so many leaves together, which clear makes usable.
func newTree(leaves int) tree {
	return tree{value: values.get(leaves), winner: indexes.get(2 * leaves)}
}

// clear excludes every leaf.
func (t tree) clear() {
	size := len(t.value)
	for i := range t.value {
		t.value[i] = none
		t.winner[size+i] = int32(i)
	}
	for i := size - 1; i >= 1; i-- { // all are equal
		t.winner[i] = t.winner[2*i]
	}
}

// build computes all matches after leaves were set directly.
func (t tree) build() {
	for i := len(t.value) - 1; i >= 1; i-- {
		t.play(i)
	}
}

func (t tree) play(i int) {
	l, r := t.winner[2*i], t.winner[2*i+1]
	if t.value[r] > t.value[l] {
		l = r
	}
	t.winner[i] = l
}

func (t tree) set(leaf int, v float64) {
	t.value[leaf] = v
	for i := (len(t.value) + leaf) / 2; i >= 1; i /= 2 {
		t.play(i)
	}
}

// best returns the best leaf and its value; none if every leaf is excluded.
func (t tree) best() (int, float64) {
	w := t.winner[1]
	return int(w), t.value[w]
}
