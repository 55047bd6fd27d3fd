// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"fmt"

	"github.com/drover-project/drover/core/model"
)

// tables is everything that is stored. The Store has one that is written to;
// every View has an immutable one.
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

// declared is every table, in the order in which snapshots hold them: nodes and jobs
// before the allocs that refer to them. A test checks that none is missing.
var declared = [...]tableKind{
	namespaceTable, poolTable, configTable, clusterTable, nodeTable, jobTable, jobVersionTable, scalingTable, summaryTable, evalTable,
	deploymentTable, variableTable, rootKeyTable, pluginTable, launchTable, driverSchemaTable, allocTable, usageTable, driverUseTable,
}

const maxTables = 24

// named is the declared tables by name. What is derived from other tables has none.
var named = number()

// number gives each table its place in tables.changed and tables.removed.
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

// tableKind is what one declaration gives to everything that handles all tables.
type tableKind interface {
	head() *heading
	start(t *tables)                             // puts an empty table into t
	publish(into, writer, before *tables)        // what readers get after a commit
	rollback(into, writer, before *tables)       // the writer's table as it was when before was published
	len(t *tables) int                           // rows; -1 if it has none of its own
	save(s *saver, t *tables)                    // writes its records
	loads() map[byte]func(*loader, []byte) error // reads them, by the kind of record
	wake(row any, wake wakeFunc)                 // calls wake with the keys by which a changed row is watched
}

// heading is what every declaration has.
type heading struct {
	name   string
	number int // its place in declared
}

func (h *heading) head() *heading { return h }

// wakeFunc is told a key of a row: its id (by ""), or its value in an index.
type wakeFunc func(by, value string)

// kind declares a table with rows: what follows from its rows' type follows from here.
type kind[R any] struct {
	heading
	schema[R]
	at func(*tables) **table[R] // where it is
	// record is the kind of its rows' records in snapshots; 0 if rows are not saved as
	// they are. They are not saved at all if saveAll is nil, too.
	record  byte
	saveAll func(*saver, *table[R])
	loadAll map[byte]func(*loader, []byte) error // reads what saveAll writes
	// watched returns the keys of what is recorded as changed, if that is not a row.
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

// wake gives the id of a row, and its keys in the indexes that are watched.
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

// single declares a table of one row, or none. It is watched as a whole.
type single[R any] struct {
	heading
	at     func(*tables) **R // where it is
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

// part declares a table whose rows are kept in those of another one: it has indexes
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

// publish returns what readers get after a commit: new copies of what changed,
// and what was published before of the rest.
func (t *tables) publish(before *tables) *tables {
	out := &tables{changed: t.changed, removed: t.removed}
	for _, k := range declared {
		k.publish(out, t, before)
	}
	return out
}

// rollback returns the writer's tables as they were when before was published.
func (t *tables) rollback(before *tables) *tables {
	out := &tables{changed: before.changed, removed: before.removed}
	for _, k := range declared {
		k.rollback(out, t, before)
	}
	return out
}
