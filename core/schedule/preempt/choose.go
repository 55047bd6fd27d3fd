// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package preempt

import (
	"cmp"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// dims is the number of dimensions in which a node may lack room: processor, memory, disk,
// cores, number of allocs.
const dims = 5

// Amount is what an alloc holds, or what a node lacks.
type Amount [dims]int64

// Holder is an alloc that may be preempted.
type Holder struct {
	Alloc    *model.Allocation
	Priority int
	Holds    Amount
	Must     bool // nothing helps unless it goes, since it holds a port that is asked for
}

// Set is the allocs of one node that are preempted together. The zero Set costs nothing.
type Set struct {
	Holders []Holder
	Top     int // the highest priority among them
	Sum     int // of their priorities
}

// Compare orders sets by their cost: the most important job that is hit, the number of
// allocs, the sum of their priorities.
func (s *Set) Compare(o *Set) int {
	return cmp.Or(cmp.Compare(s.Top, o.Top), cmp.Compare(len(s.Holders), len(o.Holders)), cmp.Compare(s.Sum, o.Sum))
}

// Freed returns what the set holds.
func (s *Set) Freed() (out Amount) {
	for i := range s.Holders {
		out.add(&s.Holders[i].Holds)
	}
	return out
}

func (a *Amount) add(b *Amount) {
	for d := range a {
		a[d] += b[d]
	}
}

// covers reports whether a is enough for what is lacking.
func (a *Amount) covers(lacks *Amount) bool {
	for d := range a {
		if a[d] < lacks[d] {
			return false
		}
	}
	return true
}

// Limits of the search for the smallest set on one node. When it would take longer, the
// set is only minimal: none of its allocs can be spared.
const (
	maxSteps  = 2000
	maxChecks = 300
)

// Chooser chooses sets. It keeps its buffers from one call to the next.
type Chooser struct {
	holders []Holder
	classes []class
	counts  []int // of each class, in the set that is being tried
	best    []int // of each class, in the best set so far
	found   bool
	sum     int     // of the priorities of best
	excess  float64 // how much more than needed best frees
	lacks   Amount
	fits    func([]Holder) bool
	steps   int
	checks  int
	scratch []Holder
	room    []Holder // for the holders of the next sets
}

// roomFor is for how many holders of sets room is made at a time.
const roomFor = 256

// class is holders that are alike: any of them serves as well as the others.
type class struct {
	first, n int
	priority int
	holds    Amount
	most     Amount // the most that one holder of this or a later class holds, by dimension
}

// Smallest returns the cheapest set of holders whose removal frees what is lacking and
// satisfies fits; nil means that room in the dimensions of Amount is all that is needed.
// fits must hold for every superset of a set for which it holds. If there is no such set,
// ok is false. The holders are sorted, and the set is valid until they are changed.
func (c *Chooser) Smallest(holders []Holder, lacks Amount, fits func([]Holder) bool) (set Set, ok bool) {
	slices.SortFunc(holders, order)
	c.holders, c.lacks, c.fits, c.steps, c.checks = holders, lacks, fits, 0, 0
	all, ok := c.allowed()
	if !ok {
		return Set{}, false
	}
	c.holders = holders[:all]
	if !c.search() {
		return c.setOf(c.spare()), true
	}
	return c.setOf(c.chosen(c.best)), true
}

// order puts what is preempted first at the front: low priority, what must go, what began
// last and so loses the least work.
func order(a, b Holder) int {
	must := 0
	if a.Must != b.Must {
		must = 1
		if a.Must {
			must = -1
		}
	}
	if by := cmp.Or(cmp.Compare(a.Priority, b.Priority), must); by != 0 {
		return by
	}
	for d := range a.Holds {
		if by := cmp.Compare(a.Holds[d], b.Holds[d]); by != 0 {
			return by
		}
	}
	return cmp.Or(-cmp.Compare(a.Alloc.CreateIndex, b.Alloc.CreateIndex), cmp.Compare(a.Alloc.ID, b.Alloc.ID))
}

// allowed returns how many of the sorted holders have the lowest priorities that suffice
// together.
func (c *Chooser) allowed() (int, bool) {
	musts := 0
	for i := range c.holders {
		if c.holders[i].Must {
			musts = i + 1
		}
	}
	var freed Amount
	for i := range c.holders {
		freed.add(&c.holders[i].Holds)
		if last := i+1 == len(c.holders) || c.holders[i+1].Priority != c.holders[i].Priority; !last || i+1 < musts {
			continue
		}
		if freed.covers(&c.lacks) && (c.fits == nil || c.fits(c.holders[:i+1])) {
			return i + 1, true
		}
	}
	return 0, false
}

// search looks for the smallest set, and reports whether it has found it within its limits.
func (c *Chooser) search() bool {
	c.classify()
	c.found = false
	for k := 0; k <= len(c.holders); k++ {
		rest := c.lacks
		left := k
		for i := range c.classes {
			c.counts[i] = 0
			if cl := &c.classes[i]; c.holders[cl.first].Must {
				c.counts[i] = cl.n
				left -= cl.n
				for d := range rest {
					rest[d] -= int64(cl.n) * cl.holds[d]
				}
			}
		}
		if left < 0 {
			continue
		}
		c.try(0, left, rest)
		if c.found {
			return true
		}
		if c.steps > maxSteps || c.checks > maxChecks {
			return false
		}
	}
	return false
}

// classify groups the holders. What they hold besides the amounts (ports, devices) may
// differ, so with fits each is a class of its own.
func (c *Chooser) classify() {
	c.classes = c.classes[:0]
	for i := range c.holders {
		h := &c.holders[i]
		if n := len(c.classes); n > 0 && c.fits == nil {
			if l := &c.classes[n-1]; l.priority == h.Priority && l.holds == h.Holds && c.holders[l.first].Must == h.Must {
				l.n++
				continue
			}
		}
		c.classes = append(c.classes, class{first: i, n: 1, priority: h.Priority, holds: h.Holds})
	}
	var most Amount
	for i := len(c.classes) - 1; i >= 0; i-- {
		cl := &c.classes[i]
		for d := range most {
			if !c.holders[cl.first].Must {
				most[d] = max(most[d], cl.holds[d])
			}
		}
		cl.most = most
	}
	c.counts = append(c.counts[:0], make([]int, len(c.classes))...)
	c.best = append(c.best[:0], c.counts...)
}

// try adds left holders of the classes from i on, in every way that can still free the
// rest.
func (c *Chooser) try(i, left int, rest Amount) {
	if c.steps++; c.steps > maxSteps || c.checks > maxChecks {
		return
	}
	if left == 0 {
		if none := (Amount{}); none.covers(&rest) {
			c.offer()
		}
		return
	}
	if i == len(c.classes) {
		return
	}
	cl := &c.classes[i]
	for d := range rest {
		if rest[d] > int64(left)*cl.most[d] {
			return
		}
	}
	if c.holders[cl.first].Must { // in the set already
		c.try(i+1, left, rest)
		return
	}
	for n := min(left, cl.n); n >= 0; n-- {
		next := rest
		for d := range next {
			next[d] -= int64(n) * cl.holds[d]
		}
		c.counts[i] = n
		c.try(i+1, left-n, next)
	}
	c.counts[i] = 0
}

// offer makes the set that is being tried the best one if it is better and fits.
func (c *Chooser) offer() {
	sum, excess := 0, 0.0
	var freed Amount
	for i, n := range c.counts {
		cl := &c.classes[i]
		sum += n * cl.priority
		for d := range freed {
			freed[d] += int64(n) * cl.holds[d]
		}
	}
	for d, need := range c.lacks {
		if need > 0 {
			excess += float64(freed[d]) / float64(need)
		}
	}
	if c.found && cmp.Or(cmp.Compare(sum, c.sum), cmp.Compare(excess, c.excess)) >= 0 {
		return
	}
	if c.fits != nil {
		c.checks++
		if !c.fits(c.chosen(c.counts)) {
			return
		}
	}
	c.found, c.sum, c.excess = true, sum, excess
	copy(c.best, c.counts)
}

// chosen returns the holders of a choice: of each class the first ones.
func (c *Chooser) chosen(counts []int) []Holder {
	c.scratch = c.scratch[:0]
	for i, n := range counts {
		first := c.classes[i].first
		c.scratch = append(c.scratch, c.holders[first:first+n]...)
	}
	return c.scratch
}

// spare begins with all holders and spares one after another, the most important and among
// equals the smallest first, as long as the others suffice.
func (c *Chooser) spare() []Holder {
	out := slices.Clone(c.holders)
	byPriority := slices.Clone(c.holders)
	slices.SortStableFunc(byPriority, func(a, b Holder) int { return -cmp.Compare(a.Priority, b.Priority) })
	for _, h := range byPriority {
		if h.Must {
			continue
		}
		at := slices.IndexFunc(out, func(o Holder) bool { return o.Alloc == h.Alloc })
		less := slices.Delete(slices.Clone(out), at, at+1)
		s := Set{Holders: less}
		if freed := s.Freed(); freed.covers(&c.lacks) && (c.fits == nil || c.fits(less)) {
			out = less
		}
	}
	return out
}

// setOf returns a set with a copy of the holders.
func (c *Chooser) setOf(holders []Holder) Set {
	if len(c.room) < len(holders) {
		c.room = make([]Holder, max(len(holders), roomFor))
	}
	s := Set{Holders: c.room[:len(holders):len(holders)]}
	c.room = c.room[len(holders):]
	copy(s.Holders, holders)
	for i := range s.Holders {
		s.Top, s.Sum = max(s.Top, s.Holders[i].Priority), s.Sum+s.Holders[i].Priority
	}
	return s
}
