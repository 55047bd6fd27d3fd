// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"fmt"

	"github.com/drover-project/drover/core/model"
)

// tables holds all tables. The Store has the writer's tables; every View has immutable
// ones.
type tables struct {
	jobs          *table[jobRow]
	summaries     *table[summaryRow]
	allocs        *table[model.Allocation]
	evals         *table[model.Evaluation]
	deployments   *table[model.Deployment]
	nodes         *table[model.Node]
	usage         *table[usageRow]
	namespaces    *table[model.Namespace]
	pools         *table[model.NodePool]
	launches      *table[model.PeriodicLaunch]
	variables     *table[model.Variable]
	rootKeys      *table[model.RootKey]
	plugins       *table[model.PluginSpec]
	driverSchemas *table[model.DriverSchema]
	driverUses    *table[model.DriverUse]
	config        *model.SchedulerConfiguration
	cluster       *model.Cluster
	changed       [maxTables]uint64 // by table: the index of its last change
	removed       [maxTables]uint64 // by table: the index of its last removal of a row
}

// declared lists every table, in the order of snapshots: nodes and jobs come before
// the allocs that refer to them. A test checks that none is missing.
var declared = [...]tableKind{
	namespaceTable, poolTable, configTable, clusterTable, nodeTable, jobTable, jobVersionTable, scalingTable, summaryTable, evalTable,
	deploymentTable, variableTable, rootKeyTable, pluginTable, launchTable, driverSchemaTable, allocTable, usageTable, driverUseTable,
}

const maxTables = 24

// named maps names to declared tables. Tables that are derived from others have no
// name.
var named = number()

// number assigns each table its position in tables.changed and tables.removed.
func number() map[string]tableKind {
	out := make(map[string]tableKind, len(declared))
	for i, k := range declared {
		if i == maxTables {
			panic(fmt.Sprintf("core/state: more than %d tables are declared; raise maxTables", maxTables))
		}
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
	rollback(into, writer, before *tables)       // restores the writer's table to its state when before was published
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
	at func(*tables) **table[R] // location of the table
	// record is the kind of its rows' records in snapshots. It is 0 if rows are not
	// saved as they are; if saveAll is nil too, they are not saved at all.
	record  byte
	saveAll func(*saver, *table[R])
	loadAll map[byte]func(*loader, []byte) error // reads what saveAll writes
	// watched returns the watch keys of a recorded change, if what is recorded is not
	// a row.
	watched func(row any, wake wakeFunc)
}

func (k *kind[R]) start(t *tables) { *k.at(t) = newTable(&k.schema) }

func (k *kind[R]) publish(into, writer, before *tables) {
	if w := *k.at(writer); w.dirty {
		*k.at(into) = w.freeze()
	} else {
		*k.at(into) = *k.at(before)
	}
}

func (k *kind[R]) rollback(into, writer, before *tables) {
	if w := *k.at(writer); w.dirty {
		*k.at(into) = (*k.at(before)).rebuild()
	} else {
		*k.at(into) = w
	}
}

func (k *kind[R]) len(t *tables) int { return (*k.at(t)).len() }

func (k *kind[R]) save(s *saver, t *tables) {
	switch {
	case k.saveAll != nil:
		k.saveAll(s, *k.at(t))
	case k.record != 0:
		saveTable(s, k.record, *k.at(t))
	}
}

func (k *kind[R]) loads() map[byte]func(*loader, []byte) error {
	out := map[byte]func(*loader, []byte) error{}
	if k.record != 0 {
		out[k.record] = func(l *loader, data []byte) error { return loadRow(l, *k.at(l.tx.t), data) }
	}
	for record, load := range k.loadAll {
		out[record] = load
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
	at     func(*tables) **R // location of the row
	record byte              // the kind of its record in snapshots
}

func (*single[R]) start(*tables)                      {}
func (k *single[R]) publish(into, writer, _ *tables)  { *k.at(into) = *k.at(writer) }
func (k *single[R]) rollback(into, _, before *tables) { *k.at(into) = *k.at(before) }
func (*single[R]) len(*tables) int                    { return -1 }
func (*single[R]) wake(any, wakeFunc)                 {}

func (k *single[R]) save(s *saver, t *tables) {
	if row := *k.at(t); row != nil {
		s.record(k.record, row)
	}
}

func (k *single[R]) loads() map[byte]func(*loader, []byte) error {
	return map[byte]func(*loader, []byte) error{k.record: func(l *loader, data []byte) error {
		row := new(R)
		*k.at(l.tx.t) = row
		return l.codec.Decode(data, row)
	}}
}

// part declares a table whose rows are stored in those of another one. It has an index
// and watches of its own.
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
	t := &tables{}
	for _, k := range declared {
		k.start(t)
	}
	return t
}

// publish returns what readers get after a commit: new copies of the tables that
// changed, and the previously published ones of the rest.
func (t *tables) publish(before *tables) *tables {
	out := &tables{changed: t.changed, removed: t.removed}
	for _, k := range declared {
		k.publish(out, t, before)
	}
	return out
}

// rollback returns the writer's tables in their state when before was published.
func (t *tables) rollback(before *tables) *tables {
	out := &tables{changed: before.changed, removed: before.removed}
	for _, k := range declared {
		k.rollback(out, t, before)
	}
	return out
}
