// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "slices"

// declared lists every kind of object: its literal says all there is to know about it, and
// this list only adds the order of snapshots, in which nodes and jobs come before the
// allocs that refer to them. A test checks that none is missing.
var declared = [...]tableKind{
	namespaceTable, poolTable, configTable, clusterTable, autopilotTable, nodeTable, jobTable, jobVersionTable, scalingTable, summaryTable, evalTable,
	deploymentTable, variableTable, rootKeyTable, serverKeyTable, pluginTable, launchTable, driverSchemaTable, hostVolumeTable, claimTable, csiVolumeTable, csiHoldTable, csiSiteTable, allocTable, usageTable, driverUseTable, serviceTable,
}

// tables holds all tables. The Store has the writer's tables; every View has immutable
// ones. Each slice has one element for each declared kind.
type tables struct {
	slots   []any    // the table of a kind, or the row of a single
	changed []uint64 // the index of the last change
	removed []uint64 // the index of the last removal of a row
	fleet   *fleetOf // of published tables
}

// named maps names to declared tables. Tables that are derived from others have no
// name.
var named = number()

// number assigns each kind its position in tables.
func number() map[string]tableKind {
	out := make(map[string]tableKind, len(declared))
	for i, k := range declared {
		k.head().number = i
		if name := k.head().name; name != "" {
			out[name] = k
		}
	}
	return out
}

// tableKind is the part of a table's declaration that does not depend on the type of
// its rows.
type tableKind interface {
	head() *heading
	start(t *tables)                             // puts an empty table into t
	publish(into, writer, before *tables)        // sets what readers get after a commit
	rollback(into, writer, before *tables)       // restores the writer's table as it was when before was published
	len(t *tables) int                           // number of rows; -1 if the table has no rows of its own
	save(s *saver, t *tables)                    // writes its records
	loads() map[byte]func(*loader, []byte) error // functions that read its records, by kind
	wake(row any, wake wakeFunc)                 // calls wake with the keys by which a changed row is watched
}

// heading is the common part of all declarations.
type heading struct {
	name   string
	number int // position in declared
}

func (h *heading) head() *heading { return h }

// wakeFunc receives a key of a row: its id (by is ""), or its value in an index.
type wakeFunc func(by, value string)

// kind declares a table with rows of type R.
type kind[R any] struct {
	heading
	schema[R]
	// record is the kind of its rows' records in snapshots. It is 0 if rows are not
	// saved as they are; if saveAll is nil too, they are not saved at all.
	record  byte
	saveAll func(*saver, *table[R])
	loadAll map[byte]func(*loader, *table[R], []byte) error // reads what saveAll writes
	// watched returns the watch keys of a recorded change, for tables that record other
	// values than rows.
	watched func(row any, wake wakeFunc)
}

// in returns the table of the kind.
func (k *kind[R]) in(t *tables) *table[R] { return t.slots[k.number].(*table[R]) }

func (k *kind[R]) start(t *tables) { t.slots[k.number] = newTable(&k.schema) }

func (k *kind[R]) publish(into, writer, before *tables) {
	if w := k.in(writer); w.dirty {
		into.slots[k.number] = w.freeze()
	} else {
		into.slots[k.number] = k.in(before)
	}
}

func (k *kind[R]) rollback(into, writer, before *tables) {
	if w := k.in(writer); w.dirty {
		into.slots[k.number] = k.in(before).rebuild()
	} else {
		into.slots[k.number] = w
	}
}

func (k *kind[R]) len(t *tables) int { return k.in(t).len() }

func (k *kind[R]) save(s *saver, t *tables) {
	switch {
	case k.saveAll != nil:
		k.saveAll(s, k.in(t))
	case k.record != 0:
		saveTable(s, k.record, k.in(t))
	}
}

func (k *kind[R]) loads() map[byte]func(*loader, []byte) error {
	out := map[byte]func(*loader, []byte) error{}
	if k.record != 0 {
		out[k.record] = func(l *loader, data []byte) error { return loadRow(l, k.in(l.tx.t), data) }
	}
	for record, load := range k.loadAll {
		out[record] = func(l *loader, data []byte) error { return load(l, k.in(l.tx.t), data) }
	}
	return out
}

// wake passes the id of a row and its keys in the watched indexes to wake.
func (k *kind[R]) wake(row any, wake wakeFunc) {
	if k.watched != nil {
		k.watched(row, wake)
		return
	}
	r := row.(*R)
	wake("", k.id(r))
	for i := range k.secondaries {
		if sec := &k.secondaries[i]; sec.watched {
			wake(sec.name, sec.key(r))
		}
	}
}

// single declares a table with at most one row. It is watched as a whole.
type single[R any] struct {
	heading
	record byte // the kind of its record in snapshots
}

// in returns the row, nil if there is none.
func (k *single[R]) in(t *tables) *R {
	row, _ := t.slots[k.number].(*R)
	return row
}

func (k *single[R]) set(t *tables, row *R) { t.slots[k.number] = row }

func (*single[R]) start(*tables)                      {}
func (k *single[R]) publish(into, writer, _ *tables)  { k.set(into, k.in(writer)) }
func (k *single[R]) rollback(into, _, before *tables) { k.set(into, k.in(before)) }
func (*single[R]) len(*tables) int                    { return -1 }
func (*single[R]) wake(any, wakeFunc)                 {}

func (k *single[R]) save(s *saver, t *tables) {
	if row := k.in(t); row != nil {
		s.record(k.record, row)
	}
}

func (k *single[R]) loads() map[byte]func(*loader, []byte) error {
	return map[byte]func(*loader, []byte) error{k.record: func(l *loader, data []byte) error {
		row := new(R)
		k.set(l.tx.t, row)
		return l.codec.Decode(data, row)
	}}
}

// part declares a table whose rows are stored within the rows of another one. It has an
// index and watches of its own.
type part struct {
	heading
	watched func(row any, wake wakeFunc)
}

func (*part) start(*tables)                               {}
func (*part) publish(_, _, _ *tables)                     {}
func (*part) rollback(_, _, _ *tables)                    {}
func (*part) len(*tables) int                             { return -1 }
func (*part) save(*saver, *tables)                        {}
func (*part) loads() map[byte]func(*loader, []byte) error { return nil }
func (p *part) wake(row any, wake wakeFunc)               { p.watched(row, wake) }

func newTables() *tables {
	n := len(declared)
	t := &tables{slots: make([]any, n), changed: make([]uint64, n), removed: make([]uint64, n)}
	for _, k := range declared {
		k.start(t)
	}
	return t
}

// publish returns what readers get after a commit: new copies of the tables that
// changed, and the previously published ones of the rest.
func (t *tables) publish(before *tables) *tables {
	out := &tables{slots: make([]any, len(declared)), changed: slices.Clone(t.changed), removed: slices.Clone(t.removed)}
	for _, k := range declared {
		k.publish(out, t, before)
	}
	out.fleet = before.fleet.next(out)
	return out
}

// rollback returns the writer's tables in their state when before was published.
func (t *tables) rollback(before *tables) *tables {
	out := &tables{slots: make([]any, len(declared)), changed: slices.Clone(before.changed), removed: slices.Clone(before.removed)}
	for _, k := range declared {
		k.rollback(out, t, before)
	}
	return out
}
