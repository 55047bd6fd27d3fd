// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"

	"github.com/tidwall/btree"
)

// secondary is a secondary index of a table. Key returns a row's key, "" for a row
// that is not in the index. If rows can be watched by the index, its name is one of
// the By constants.
type secondary[R any] struct {
	name    string
	watched bool
	key     func(*R) string
}

// setToken is shared by published tables that have the same rows under the same handles, as
// far as that is known; the contents of the rows may differ.
type setToken struct{ _ byte }

// schema describes a table.
type schema[R any] struct {
	id          func(*R) string // unique
	secondaries []secondary[R]
}

// table is a set of rows. The writer owns the table in the Store; freeze creates an
// immutable copy for readers that shares all pages.
type table[R any] struct {
	schema  *schema[R]
	rows    pages[R]
	ids     index
	by      []postings
	free    numbers
	dirty   bool
	set     *setToken // of a published table: see setToken
	altered bool      // rows were added or removed since then

	// The writer's last look-up, kept because a write of the same row often follows.
	last      string
	lastFound bool
	lastRow   uint32
	hint      btree.PathHint
}

func newTable[R any](s *schema[R]) *table[R] {
	t := &table[R]{schema: s, ids: newIndex(), rows: pages[R]{epoch: 1}}
	for range s.secondaries {
		t.by = append(t.by, newPostings())
	}
	return t
}

// freeze returns an immutable copy for readers.
func (t *table[R]) freeze() *table[R] {
	if t.altered || t.set == nil {
		t.set, t.altered = &setToken{}, false
	}
	f := &table[R]{schema: t.schema, rows: t.rows.freeze(), ids: t.ids.freeze(), by: make([]postings, len(t.by)), set: t.set}
	for i := range t.by {
		f.by[i] = t.by[i].freeze()
		t.by[i].nums.commit()
	}
	t.free.commit()
	t.dirty = false
	return f
}

// rebuild returns a writer's table with the rows of a published one, after a rollback.
func (t *table[R]) rebuild() *table[R] {
	w := newTable(t.schema)
	for row := range t.all("") {
		w.put(row)
	}
	w.freeze()
	return w
}

func (t *table[R]) len() int { return t.ids.len() }

func (t *table[R]) get(id string) *R {
	h, ok := t.ids.get(id)
	if !ok {
		return nil
	}
	return t.rows.get(h)
}

// find is get for the writer.
func (t *table[R]) find(id string) *R {
	if h, ok := t.handle(id); ok {
		return t.rows.get(h)
	}
	return nil
}

// handle returns a row's handle. Only the writer may call it.
func (t *table[R]) handle(id string) (uint32, bool) {
	if id != t.last || id == "" {
		t.lastRow, t.lastFound = t.ids.getHint(id, &t.hint)
		t.last = id
	}
	return t.lastRow, t.lastFound
}

// put inserts or replaces a row and returns the old one.
func (t *table[R]) put(row *R) (old *R) {
	t.dirty = true
	id := t.schema.id(row)
	h, exists := t.handle(id)
	if exists {
		old = t.rows.get(h)
	} else {
		h = t.free.take()
		t.ids.setHint(id, h, &t.hint)
		t.lastRow, t.lastFound, t.altered = h, true, true
	}
	for i := range t.schema.secondaries {
		key := t.schema.secondaries[i].key
		newKey, oldKey := key(row), ""
		if old != nil {
			oldKey = key(old)
		}
		if newKey == oldKey {
			continue
		}
		if oldKey != "" {
			t.by[i].remove(oldKey, h)
		}
		if newKey != "" {
			t.by[i].add(newKey, h)
		}
	}
	t.rows.set(h, row)
	return old
}

// delete removes a row and returns it.
func (t *table[R]) delete(id string) (old *R) {
	h, ok := t.handle(id)
	if !ok {
		return nil
	}
	t.dirty, t.altered = true, true
	t.last = ""
	old = t.rows.get(h)
	for i := range t.schema.secondaries {
		if key := t.schema.secondaries[i].key(old); key != "" {
			t.by[i].remove(key, h)
		}
	}
	t.ids.delete(id)
	t.rows.set(h, nil)
	t.free.give(h)
	return old
}

// scan yields the rows that have the key in the sec-th secondary index.
func (t *table[R]) scan(sec int, key string) iter.Seq[*R] {
	return func(yield func(*R) bool) {
		t.by[sec].scan(key, func(h uint32) bool { return yield(t.rows.get(h)) })
	}
}

// listed is how many rows a list has room for at first: as many as a node often has allocs.
const listed = 8

// list is scan into a slice; nil without rows.
func (t *table[R]) list(sec int, key string) []*R {
	var out []*R
	t.by[sec].scan(key, func(h uint32) bool {
		if out == nil {
			out = make([]*R, 0, listed)
		}
		out = append(out, t.rows.get(h))
		return true
	})
	return out
}

// all yields the rows whose id is >= from, ordered by id.
func (t *table[R]) all(from string) iter.Seq[*R] {
	return func(yield func(*R) bool) {
		key := func(h uint32) string { return t.schema.id(t.rows.get(h)) }
		for h := range t.ids.ascend(from, key) {
			if !yield(t.rows.get(h)) {
				return
			}
		}
	}
}
