// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rank

import "slices"

// Options configure how the nodes of one group are scored.
type Options struct {
	Ask        Ask
	Desired    int       // count of the group
	Spreading  bool      // spread load over nodes instead of packing it
	Rows       []int32   // feasible rows of the columns
	Affinity   []float64 // by row of the columns, or nil
	Collisions []int32   // by row of the columns: allocs of the same group on the node
	Spreads    []*Spread
	Kind       []int32 // by row: rows with the same number have equal values of all spreads; nil if that is not known
}

// partsMax is the maximum number of parts of a score besides spread: fit,
// anti-affinity, affinity, penalty.
const partsMax = 4

// Picker finds the best feasible row for one alloc after another. Rows with equal
// spread values form a cell. A cell has one tournament tree per number of score parts,
// in which rows compete by the sum of their parts; a tree over the cells then compares
// means. So one placement costs O(log n).
type Picker struct {
	cols   *Columns
	o      Options
	marks  []uint8 // by row
	cells  []cell
	values []int32 // the spread values of each cell, one cell after the other: see value
	cellOf []int32 // by row
	leafOf []int32 // by row
	rows   []int32 // the rows of each cell, one cell after the other
	parts  []uint8 // by row: index of its tree in the cell
	trees  [partsMax + 1]tree
	by     []valueIndex // by spread
	top    tree
	alike  fitted
	said   [explained]explanation // the newest explanations, in a ring
	next   int
}

// Marks of rows.
const (
	dropped   = 1 << iota // it takes no more allocs of the group
	penalised             // an alloc failed there before
)

// explained is how many explanations are kept. Rows of equal nodes have equal scores, so
// most placements share the explanation of an earlier one.
const explained = 8

// explanation is what Explain returned for a row with these parts of its score.
type explanation struct {
	fit, antiAffinity, affinity, spread float64
	penalty                             bool
	spreads                             bool
	parts                               map[string]float64
}

// cell is the rows that have the same value in every spread. Each of its trees is a part of a
// tree of the picker.
type cell struct {
	rows   []int32
	at     int   // number of its first leaf in each of the picker's trees
	leaves int   // number of leaves of each of its trees, a power of two
	grown  uint8 // bit n is set if its tree n is in use
}

// valueIndex finds the cells with a value of a spread.
type valueIndex struct {
	from  []int32 // the cells of value v are cells[from[v+1]:from[v+2]]
	cells []int32
}

func (x *valueIndex) of(value int32) []int32 { return x.cells[x.from[value+1]:x.from[value+2]] }

// NewPicker scores every feasible row once.
func NewPicker(cols *Columns, o Options) *Picker {
	n := len(cols.CapCPU)
	p := &Picker{
		cols: cols, o: o, marks: marks.get(n), parts: marks.get(n),
		cellOf: indexes.get(n), leafOf: indexes.get(n),
	}
	for i := range p.cellOf {
		p.cellOf[i] = -1
	}
	p.group()
	p.plant()
	for i := range p.cells {
		p.fill(&p.cells[i])
	}
	p.top = newTree(sizeOf(len(p.cells)))
	p.top.clear()
	for i := range p.cells {
		_, p.top.value[i] = p.bestOf(i)
	}
	p.top.build()
	return p
}

// group assigns rows to cells by their spread values.
func (p *Picker) group() {
	if len(p.o.Spreads) == 0 {
		if len(p.o.Rows) > 0 {
			p.cells = []cell{{rows: p.o.Rows}}
			for i, r := range p.o.Rows {
				p.cellOf[r], p.leafOf[r] = 0, int32(i)
			}
		}
		return
	}
	f := newCellFinder(p)
	var sizes []int32
	for _, r := range p.o.Rows {
		ci := f.of(r)
		if int(ci) == len(sizes) {
			sizes = append(sizes, 0)
		}
		p.cellOf[r], p.leafOf[r] = ci, sizes[ci]
		sizes[ci]++
	}
	p.rows, p.cells = indexes.get(len(p.o.Rows)), make([]cell, len(sizes))
	at := int32(0)
	for ci, size := range sizes {
		p.cells[ci].rows = p.rows[at : at+size]
		at += size
	}
	for _, r := range p.o.Rows {
		p.cells[p.cellOf[r]].rows[p.leafOf[r]] = r
	}
	for i := range p.o.Spreads {
		p.by = append(p.by, p.indexBy(i))
	}
}

// indexBy sorts the cells by their values of a spread.
func (p *Picker) indexBy(spread int) valueIndex {
	x := valueIndex{from: make([]int32, len(p.o.Spreads[spread].Desired)+2), cells: make([]int32, len(p.cells))}
	for ci := range p.cells {
		x.from[p.value(ci, spread)+2]++
	}
	for v := 1; v < len(x.from); v++ {
		x.from[v] += x.from[v-1]
	}
	at := slices.Clone(x.from)
	for ci := range p.cells {
		v := p.value(ci, spread) + 1
		x.cells[at[v]] = int32(ci)
		at[v]++
	}
	return x
}

// value returns the value of a spread that the rows of a cell have.
func (p *Picker) value(ci, spread int) int32 { return p.values[ci*len(p.o.Spreads)+spread] }

// cellFinder finds the cell of a row by its values one after another: (prefix, value) ->
// longer prefix. The first prefix is the first value plus one.
type cellFinder struct {
	p        *Picker
	prefixes map[step]int32
	next     int32   // number of the next prefix
	ofPrefix []int32 // the cell plus one, 0 if there is none
	ofKind   []int32 // the same, by kind of rows
	cells    int32
}

type step struct{ prefix, value int32 }

func newCellFinder(p *Picker) *cellFinder {
	return &cellFinder{p: p, prefixes: map[step]int32{}, next: int32(len(p.o.Spreads[0].Desired) + 1)}
}

func (f *cellFinder) of(row int32) int32 {
	if f.p.o.Kind == nil {
		return f.find(row)
	}
	ci := entry(&f.ofKind, f.p.o.Kind[row])
	if *ci == 0 {
		*ci = f.find(row) + 1
	}
	return *ci - 1
}

func (f *cellFinder) find(row int32) int32 {
	spreads := f.p.o.Spreads
	key := spreads[0].Value[row] + 1
	for _, s := range spreads[1:] {
		st := step{key, s.Value[row]}
		longer, known := f.prefixes[st]
		if !known {
			longer = f.next
			f.next++
			f.prefixes[st] = longer
		}
		key = longer
	}
	ci := entry(&f.ofPrefix, key)
	if *ci == 0 {
		f.cells++
		*ci = f.cells
		for _, s := range spreads {
			f.p.values = append(f.p.values, s.Value[row])
		}
	}
	return *ci - 1
}

// entry returns the i-th entry of a list, which grows as needed.
func entry(list *[]int32, i int32) *int32 {
	if n := int(i) + 1; n > len(*list) {
		*list = slices.Grow(*list, n-len(*list))[:n]
	}
	return &(*list)[i]
}

// plant gives each cell its place in the trees.
func (p *Picker) plant() {
	at := 0
	for i := range p.cells {
		c := &p.cells[i]
		c.at, c.leaves = at, sizeOf(len(c.rows))
		at += c.leaves
	}
}

func (p *Picker) fill(c *cell) {
	for _, r := range c.rows {
		sum, parts := p.sum(int(r))
		p.parts[r] = parts
		if parts > 0 {
			p.tree(c, parts).value[p.leafOf[r]] = sum
		}
	}
	for parts := range p.trees {
		if c.grown&(1<<parts) != 0 {
			p.tree(c, uint8(parts)).build()
		}
	}
}

// tree returns the tree of a cell for rows with a number of parts.
func (p *Picker) tree(c *cell, parts uint8) tree {
	all := &p.trees[parts]
	if all.value == nil {
		last := &p.cells[len(p.cells)-1]
		*all = newTree(last.at + last.leaves)
	}
	t := tree{value: all.value[c.at : c.at+c.leaves], winner: all.winner[2*c.at : 2*(c.at+c.leaves)]}
	if c.grown&(1<<parts) == 0 {
		c.grown |= 1 << parts
		t.clear()
	}
	return t
}

// sum returns the sum and the number of a row's parts without spread; 0 parts mean
// that the row has no room.
func (p *Picker) sum(row int) (float64, uint8) {
	a := p.o.Ask
	if p.marks[row]&dropped != 0 || p.cols.Lacking(row, a) != "" {
		return 0, 0
	}
	sum := p.fit(row)
	parts := uint8(1)
	if c := p.o.Collisions[row]; c > 0 {
		sum += antiAffinity(c, p.o.Desired)
		parts++
	}
	if p.o.Affinity != nil && p.o.Affinity[row] != 0 {
		sum += p.o.Affinity[row]
		parts++
	}
	if p.marks[row]&penalised != 0 {
		sum--
		parts++
	}
	return sum, parts
}

func (p *Picker) fit(row int) float64 {
	c, a := p.cols, p.o.Ask
	return p.alike.fit(c.UsedCPU[row]+a.CPU, c.CapCPU[row], c.UsedMemory[row]+a.Memory, c.CapMemory[row], p.o.Spreading)
}

func (p *Picker) spread(ci int) float64 {
	total := 0.0
	for i, s := range p.o.Spreads {
		total += s.score(p.value(ci, i))
	}
	return total
}

// bestOf returns the best row of a cell and its score.
func (p *Picker) bestOf(ci int) (int, float64) {
	c := &p.cells[ci]
	row, best := -1, none
	spread, extra := 0.0, 0.0
	if len(p.o.Spreads) > 0 {
		spread, extra = p.spread(ci), 1
	}
	for parts := uint8(1); parts <= partsMax; parts++ {
		if c.grown&(1<<parts) == 0 {
			continue
		}
		t := p.tree(c, parts)
		leaf, sum := t.best()
		if sum == none {
			continue
		}
		if score := (sum + spread) / (float64(parts) + extra); score > best {
			row, best = int(c.rows[leaf]), score
		}
	}
	return row, best
}

// Best returns the best row and its score; false if no row can take the ask.
func (p *Picker) Best() (row int, score float64, ok bool) {
	if len(p.cells) == 0 {
		return 0, 0, false
	}
	ci, score := p.top.best()
	if score == none {
		return 0, 0, false
	}
	row, score = p.bestOf(ci)
	return row, score, row >= 0
}

// Fits reports whether a row is feasible and has room for the ask.
func (p *Picker) Fits(row int) bool { return p.cellOf[row] >= 0 && p.parts[row] > 0 }

// Take places one alloc on a row.
func (p *Picker) Take(row int) {
	p.cols.Use(row, p.o.Ask)
	p.o.Collisions[row]++
	p.count(row, 1)
	p.Refresh(row)
}

// count updates the spreads after an alloc was added to or removed from a row.
func (p *Picker) count(row, delta int) {
	for i, s := range p.o.Spreads {
		v := s.Value[row]
		if v < 0 {
			continue
		}
		s.Used[v] += delta
		for _, ci := range p.by[i].of(v) {
			_, score := p.bestOf(int(ci))
			p.top.set(int(ci), score)
		}
	}
}

// Leave removes an alloc of the group from a row (delta -1), or adds it again (delta
// 1). The caller updates the columns.
func (p *Picker) Leave(row, delta int) {
	if p.o.Collisions[row]+int32(delta) >= 0 {
		p.o.Collisions[row] += int32(delta)
	}
	p.count(row, delta)
	p.Refresh(row)
}

// Drop excludes a row: it takes no more allocs of this group.
func (p *Picker) Drop(row int) { p.marks[row] |= dropped; p.Refresh(row) }

// Restore includes a dropped row again.
func (p *Picker) Restore(row int) { p.marks[row] &^= dropped; p.Refresh(row) }

// Penalise sets or removes the reschedule penalty of a row.
func (p *Picker) Penalise(row int, on bool) {
	p.marks[row] &^= penalised
	if on {
		p.marks[row] |= penalised
	}
	p.Refresh(row)
}

// Refresh scores a row again after its columns have changed.
func (p *Picker) Refresh(row int) {
	ci := p.cellOf[row]
	if ci < 0 {
		return
	}
	c, leaf := &p.cells[ci], int(p.leafOf[row])
	sum, parts := p.sum(row)
	if old := p.parts[row]; old > 0 && old != parts {
		t := p.tree(c, old)
		t.set(leaf, none)
	}
	if parts > 0 {
		t := p.tree(c, parts)
		t.set(leaf, sum)
	}
	p.parts[row] = parts
	_, score := p.bestOf(int(ci))
	p.top.set(int(ci), score)
}

// Explain returns the parts of a row's score by name. The caller must not change them.
func (p *Picker) Explain(row int) map[string]float64 {
	e := explanation{fit: p.fit(row), antiAffinity: antiAffinity(p.o.Collisions[row], p.o.Desired), penalty: p.marks[row]&penalised != 0}
	if p.o.Affinity != nil {
		e.affinity = p.o.Affinity[row]
	}
	if len(p.o.Spreads) > 0 && p.cellOf[row] >= 0 {
		e.spreads, e.spread = true, p.spread(int(p.cellOf[row]))
	}
	for i := range p.said {
		if s := &p.said[i]; s.parts != nil && s.same(&e) {
			return s.parts
		}
	}
	e.parts = e.byName()
	p.said[p.next%explained] = e
	p.next++
	return e.parts
}

// same reports whether two explanations say the same.
func (e *explanation) same(o *explanation) bool {
	return e.fit == o.fit && e.antiAffinity == o.antiAffinity && e.affinity == o.affinity && e.spread == o.spread && e.penalty == o.penalty && e.spreads == o.spreads
}

func (e *explanation) byName() map[string]float64 {
	out := map[string]float64{PartBinpack: e.fit, PartAntiAffinity: e.antiAffinity, PartPenalty: 0, PartAffinity: e.affinity}
	if e.penalty {
		out[PartPenalty] = -1
	}
	if e.spreads {
		out[PartSpread] = e.spread
	}
	return out
}
