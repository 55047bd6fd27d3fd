// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

// View is an immutable snapshot of the state. Taking one costs a pointer load. Objects
// that its methods return are shared and must never be changed; a missing object is
// nil. Allocs have no Job: see AllocWithJob.
type View struct {
	index uint64
	t     *tables
}

// Index returns the index of the last log entry in the view.
func (v *View) Index() uint64 { return v.index }

// TableIndex returns the highest index that changed any of the tables; unknown names
// count as never changed. Without names it considers all tables.
func (v *View) TableIndex(names ...string) uint64 {
	var last uint64
	if len(names) == 0 {
		for _, index := range v.t.changed {
			last = max(last, index)
		}
		return last
	}
	for _, name := range names {
		if k := named[name]; k != nil {
			last = max(last, v.t.changed[k.head().number])
		}
	}
	return last
}

// RemovalIndex returns the last index that removed a row of the table. A client's
// index that includes it never goes backwards when the row with the highest index is
// removed.
func (v *View) RemovalIndex(name string) uint64 {
	if k := named[name]; k != nil {
		return v.t.removed[k.head().number]
	}
	return 0
}

// Sizes returns the number of rows by table.
func (v *View) Sizes() map[string]int {
	out := make(map[string]int, len(named))
	for name, k := range named {
		if n := k.len(v.t); n >= 0 {
			out[name] = n
		}
	}
	return out
}
