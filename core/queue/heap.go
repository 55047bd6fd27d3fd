// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import "cmp"

// entryHeap is a heap of ready entries: highest priority first, then in order of their
// submission in the line of a lane, then oldest first.
type entryHeap []*entry

func before(x, y *entry) bool {
	return cmp.Or(-cmp.Compare(x.eval.Priority, y.eval.Priority), cmp.Compare(x.order, y.order), cmp.Compare(x.seq, y.seq)) < 0
}

func (h entryHeap) Len() int           { return len(h) }
func (h entryHeap) Less(i, j int) bool { return before(h[i], h[j]) }
func (h entryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *entryHeap) Push(x any) {
	en := x.(*entry)
	en.in, en.index = h, len(*h)
	*h = append(*h, en)
}
func (h *entryHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	x.in, x.index = nil, -1
	*h = old[:len(old)-1]
	return x
}

// share says how much of the workers' time a tenant or a lane has used, and where it stands in
// its turnHeap.
type share struct {
	top  int     // priority of its first entry; 0 unless priorities count across tenants
	pass float64 // evaluations taken, divided by the weight
	name string
	pos  int // position in the heap, -1 if it has nothing to deliver
}

func (s *share) turn() *share { return s }

// turnHeap is a heap of tenants, or of the lanes of a tenant, that have something to
// deliver. The one that has used the least, relative to its weight, is first.
type turnHeap[T interface{ turn() *share }] []T

func (h turnHeap[T]) Len() int { return len(h) }
func (h turnHeap[T]) Less(i, j int) bool {
	x, y := h[i].turn(), h[j].turn()
	return cmp.Or(-cmp.Compare(x.top, y.top), cmp.Compare(x.pass, y.pass), cmp.Compare(x.name, y.name)) < 0
}
func (h turnHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].turn().pos, h[j].turn().pos = i, j
}
func (h *turnHeap[T]) Push(x any) {
	x.(T).turn().pos = len(*h)
	*h = append(*h, x.(T))
}
func (h *turnHeap[T]) Pop() any {
	old := *h
	x := old[len(old)-1]
	var none T
	old[len(old)-1] = none
	x.turn().pos = -1
	*h = old[:len(old)-1]
	return x
}
