// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

// Rows are stored in copy-on-write pages and addressed by integer handles. A snapshot
// shares all pages; a write copies one page and one directory.
const (
	pageRows = 64
	dirPages = 128
	dirRows  = pageRows * dirPages
)

type page[R any] struct {
	epoch uint64
	rows  [pageRows]*R
}

type directory[R any] struct {
	epoch uint64
	pages [dirPages]*page[R]
}

// pages maps handles to rows. A page or directory with the current epoch belongs to
// the writer alone and may be changed in place; all others are shared with snapshots.
type pages[R any] struct {
	epoch    uint64
	ownsDirs uint64 // epoch at which dirs was copied
	dirs     []*directory[R]
}

func (p *pages[R]) get(h uint32) *R {
	return p.dirs[h/dirRows].pages[h/pageRows%dirPages].rows[h%pageRows]
}

func (p *pages[R]) set(h uint32, row *R) {
	if p.ownsDirs != p.epoch {
		p.dirs = append(make([]*directory[R], 0, len(p.dirs)+1), p.dirs...)
		p.ownsDirs = p.epoch
	}
	di := int(h / dirRows)
	for len(p.dirs) <= di {
		p.dirs = append(p.dirs, &directory[R]{epoch: p.epoch})
	}
	d := p.dirs[di]
	if d.epoch != p.epoch {
		c := *d
		c.epoch = p.epoch
		d = &c
		p.dirs[di] = d
	}
	pi := h / pageRows % dirPages
	pg := d.pages[pi]
	switch {
	case pg == nil:
		pg = &page[R]{epoch: p.epoch}
		d.pages[pi] = pg
	case pg.epoch != p.epoch:
		c := *pg
		c.epoch = p.epoch
		pg = &c
		d.pages[pi] = pg
	}
	pg.rows[h%pageRows] = row
}

// freeze returns a copy for readers. Later writes copy the pages that it shares before they
// change them.
func (p *pages[R]) freeze() pages[R] {
	frozen := *p
	p.epoch++
	return frozen
}

// numbers allocates integers, such as handles of rows. A number that a transaction
// frees is reused only after its commit. A rollback drops the allocator with its
// table, see table.rebuild.
type numbers struct {
	next     uint32
	free     []uint32 // free[:top] may be handed out
	top      int
	returned []uint32
}

func (n *numbers) take() uint32 {
	if n.top > 0 {
		n.top--
		return n.free[n.top]
	}
	n.next++
	return n.next - 1
}

func (n *numbers) give(v uint32) { n.returned = append(n.returned, v) }

func (n *numbers) commit() {
	n.free = append(n.free[:n.top], n.returned...)
	n.top = len(n.free)
	n.returned = n.returned[:0]
}
