// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rank

// Options configure how the nodes of one group are scored.
type Options struct {
	Ask        Ask
	Desired    int       // count of the group
	Spreading  bool      // spread load over nodes instead of packing it
	Rows       []int32   // feasible rows of the columns
	Affinity   []float64 // by row of the columns, or nil
	Collisions []int32   // by row of the columns: allocs of the same group on the node
	Spreads    []*Spread
}

// partsMax is the maximum number of parts of a score besides spread: fit,
// anti-affinity, affinity, penalty.
const partsMax = 4

// Picker finds the best feasible row for one alloc after another. Rows with equal
// spread values form a cell. A cell has one tournament tree per number of score parts,
// in which rows compete by the sum of their parts; a tree over the cells then compares
// means. So one placement costs O(log n).
type Picker struct {
	cols    *Columns
	o       Options
	out     []bool // by row: dropped
	penalty []bool
	cells   []*cell
	cellOf  []int32 // by row
	leafOf  []int32 // by row
	parts   []int8  // by row: index of its tree in the cell
	byValue []map[int32][]int32
	top     *tree
	said    [explained]explanation // the newest explanations, in a ring
	next    int
}

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

type cell struct {
	rows   []int32
	values []int32 // one per spread
	trees  [partsMax + 1]*tree
}

// NewPicker scores every feasible row once.
func NewPicker(cols *Columns, o Options) *Picker {
	n := len(cols.CapCPU)
	p := &Picker{
		cols: cols, o: o, out: make([]bool, n), penalty: make([]bool, n),
		cellOf: indexes.get(n), leafOf: indexes.get(n), parts: make([]int8, n),
	}
	for i := range p.cellOf {
		p.cellOf[i] = -1
	}
	p.group()
	for _, c := range p.cells {
		p.fill(c)
	}
	p.top = newTree(len(p.cells))
	for i, c := range p.cells {
		_, p.top.value[i] = p.bestOf(c)
	}
	p.top.build()
	return p
}

// group assigns rows to cells by their spread values.
func (p *Picker) group() {
	p.byValue = make([]map[int32][]int32, len(p.o.Spreads))
	for i := range p.byValue {
		p.byValue[i] = map[int32][]int32{}
	}
	if len(p.o.Spreads) == 0 {
		if len(p.o.Rows) > 0 {
			p.cells = []*cell{{rows: p.o.Rows}}
			for i, r := range p.o.Rows {
				p.cellOf[r], p.leafOf[r] = 0, int32(i)
			}
		}
		return
	}
	// A cell is found by its values one after another: (prefix, value) -> longer
	// prefix.
	type step struct{ prefix, value int32 }
	prefixes, index := map[step]int32{}, map[int32]int32{}
	for _, r := range p.o.Rows {
		key := int32(0)
		for _, s := range p.o.Spreads {
			st := step{key, s.Value[r]}
			if prefixes[st] == 0 {
				prefixes[st] = int32(len(prefixes) + 1)
			}
			key = prefixes[st]
		}
		ci, ok := index[key]
		if !ok {
			ci = int32(len(p.cells))
			index[key] = ci
			c := &cell{values: make([]int32, len(p.o.Spreads))}
			for i, s := range p.o.Spreads {
				c.values[i] = s.Value[r]
				p.byValue[i][s.Value[r]] = append(p.byValue[i][s.Value[r]], ci)
			}
			p.cells = append(p.cells, c)
		}
		c := p.cells[ci]
		p.cellOf[r], p.leafOf[r] = ci, int32(len(c.rows))
		c.rows = append(c.rows, r)
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
	for _, t := range c.trees {
		if t != nil {
			t.build()
		}
	}
}

func (p *Picker) tree(c *cell, parts int8) *tree {
	if c.trees[parts] == nil {
		c.trees[parts] = newTree(len(c.rows))
		c.trees[parts].build()
	}
	return c.trees[parts]
}

// sum returns the sum and the number of a row's parts without spread; 0 parts mean
// that the row has no room.
func (p *Picker) sum(row int) (float64, int8) {
	a := p.o.Ask
	if p.out[row] || p.cols.Lacking(row, a) != "" {
		return 0, 0
	}
	sum := p.fit(row)
	parts := int8(1)
	if c := p.o.Collisions[row]; c > 0 {
		sum += antiAffinity(c, p.o.Desired)
		parts++
	}
	if p.o.Affinity != nil && p.o.Affinity[row] != 0 {
		sum += p.o.Affinity[row]
		parts++
	}
	if p.penalty[row] {
		sum--
		parts++
	}
	return sum, parts
}

func (p *Picker) fit(row int) float64 {
	c, a := p.cols, p.o.Ask
	return fit(c.UsedCPU[row]+a.CPU, c.CapCPU[row], c.UsedMemory[row]+a.Memory, c.CapMemory[row], p.o.Spreading)
}

func (p *Picker) spread(c *cell) float64 {
	total := 0.0
	for i, s := range p.o.Spreads {
		total += s.score(c.values[i])
	}
	return total
}

// bestOf returns the best row of a cell and its score.
func (p *Picker) bestOf(c *cell) (int, float64) {
	row, best := -1, none
	spread, extra := 0.0, 0.0
	if len(p.o.Spreads) > 0 {
		spread, extra = p.spread(c), 1
	}
	for parts := 1; parts <= partsMax; parts++ {
		t := c.trees[parts]
		if t == nil {
			continue
		}
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
	row, score = p.bestOf(p.cells[ci])
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
		for _, ci := range p.byValue[i][v] {
			_, score := p.bestOf(p.cells[ci])
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
func (p *Picker) Drop(row int) { p.out[row] = true; p.Refresh(row) }

// Restore includes a dropped row again.
func (p *Picker) Restore(row int) { p.out[row] = false; p.Refresh(row) }

// Penalise sets or removes the reschedule penalty of a row.
func (p *Picker) Penalise(row int, on bool) { p.penalty[row] = on; p.Refresh(row) }

// Refresh scores a row again after its columns have changed.
func (p *Picker) Refresh(row int) {
	ci := p.cellOf[row]
	if ci < 0 {
		return
	}
	c, leaf := p.cells[ci], int(p.leafOf[row])
	sum, parts := p.sum(row)
	if old := p.parts[row]; old > 0 && old != parts {
		c.trees[old].set(leaf, none)
	}
	if parts > 0 {
		p.tree(c, parts).set(leaf, sum)
	}
	p.parts[row] = parts
	_, score := p.bestOf(c)
	p.top.set(int(ci), score)
}

// Explain returns the parts of a row's score by name. The caller must not change them.
func (p *Picker) Explain(row int) map[string]float64 {
	e := explanation{fit: p.fit(row), antiAffinity: antiAffinity(p.o.Collisions[row], p.o.Desired), penalty: p.penalty[row]}
	if p.o.Affinity != nil {
		e.affinity = p.o.Affinity[row]
	}
	if len(p.o.Spreads) > 0 && p.cellOf[row] >= 0 {
		e.spreads, e.spread = true, p.spread(p.cells[p.cellOf[row]])
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
