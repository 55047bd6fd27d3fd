// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/drover-project/drover/core/model"
)

// Names of tables, for View.TableIndex, Key and Change.
const (
	TableJobs            = "jobs"
	TableJobVersions     = "job_versions"
	TableJobSummaries    = "job_summaries"
	TableAllocs          = "allocs"
	TableEvals           = "evals"
	TableDeployments     = "deployments"
	TableNodes           = "nodes"
	TableNamespaces      = "namespaces"
	TableNodePools       = "node_pools"
	TableSchedulerConfig = "scheduler_config"
	TablePeriodic        = "periodic_launches"
	TableVariables       = "variables"
	TableRootKeys        = "root_keys"
	TablePluginSpecs     = "plugin_specs"
	TableDriverSchemas   = "driver_schemas"
	TableScalingEvents   = "scaling_events"
)

var tableNames = [...]string{
	TableJobs, TableJobVersions, TableJobSummaries, TableAllocs, TableEvals,
	TableDeployments, TableNodes, TableNamespaces, TableNodePools, TableSchedulerConfig, TablePeriodic,
	TableVariables, TableRootKeys, TablePluginSpecs, TableDriverSchemas, TableScalingEvents,
}

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
	changed       [len(tableNames)]uint64 // by table: the index of its last change
	removed       [len(tableNames)]uint64 // by table: the index of its last removal of a row
}

func newTables() *tables {
	return &tables{
		jobs:          newTable(jobSchema),
		summaries:     newTable(summarySchema),
		allocs:        newTable(allocSchema),
		evals:         newTable(evalSchema),
		deployments:   newTable(deploymentSchema),
		nodes:         newTable(nodeSchema),
		usage:         newTable(usageSchema),
		namespaces:    newTable(namespaceSchema),
		pools:         newTable(poolSchema),
		variables:     newTable(variableSchema),
		rootKeys:      newTable(rootKeySchema),
		plugins:       newTable(pluginSchema),
		driverSchemas: newTable(driverSchemaSchema),
		driverUses:    newTable(driverUseSchema),
		launches:      newTable(launchSchema),
	}
}

// publish returns what readers get after a commit: new copies of what changed,
// and what was published before of the rest.
func (t *tables) publish(before *tables) *tables {
	return &tables{
		jobs:          publish(t.jobs, before.jobs),
		summaries:     publish(t.summaries, before.summaries),
		allocs:        publish(t.allocs, before.allocs),
		evals:         publish(t.evals, before.evals),
		deployments:   publish(t.deployments, before.deployments),
		nodes:         publish(t.nodes, before.nodes),
		usage:         publish(t.usage, before.usage),
		namespaces:    publish(t.namespaces, before.namespaces),
		pools:         publish(t.pools, before.pools),
		variables:     publish(t.variables, before.variables),
		rootKeys:      publish(t.rootKeys, before.rootKeys),
		plugins:       publish(t.plugins, before.plugins),
		driverSchemas: publish(t.driverSchemas, before.driverSchemas),
		driverUses:    publish(t.driverUses, before.driverUses),
		launches:      publish(t.launches, before.launches),
		config:        t.config,
		cluster:       t.cluster,
		changed:       t.changed,
		removed:       t.removed,
	}
}

func publish[R any](writer, before *table[R]) *table[R] {
	if !writer.dirty {
		return before
	}
	return writer.freeze()
}

// rollback returns the writer's tables as they were when before was published.
func (t *tables) rollback(before *tables) *tables {
	return &tables{
		jobs:          rollback(t.jobs, before.jobs),
		summaries:     rollback(t.summaries, before.summaries),
		allocs:        rollback(t.allocs, before.allocs),
		evals:         rollback(t.evals, before.evals),
		deployments:   rollback(t.deployments, before.deployments),
		nodes:         rollback(t.nodes, before.nodes),
		usage:         rollback(t.usage, before.usage),
		namespaces:    rollback(t.namespaces, before.namespaces),
		pools:         rollback(t.pools, before.pools),
		variables:     rollback(t.variables, before.variables),
		rootKeys:      rollback(t.rootKeys, before.rootKeys),
		plugins:       rollback(t.plugins, before.plugins),
		driverSchemas: rollback(t.driverSchemas, before.driverSchemas),
		driverUses:    rollback(t.driverUses, before.driverUses),
		launches:      rollback(t.launches, before.launches),
		config:        before.config,
		cluster:       before.cluster,
		changed:       before.changed,
		removed:       before.removed,
	}
}

func rollback[R any](writer, before *table[R]) *table[R] {
	if !writer.dirty {
		return writer
	}
	return before.rebuild()
}

func tableNumber(name string) int { return slices.Index(tableNames[:], name) }

// Store holds the newest state. One writer at a time; any number of readers,
// who never wait.
type Store struct {
	mu      sync.Mutex // held by the writer
	writer  *tables
	current atomic.Pointer[View]
	watches watches
	feeds   feeds
}

// New returns a store with what a fresh cluster starts with: the namespace
// default, the node pools all and default, and the scheduler configuration.
func New() *Store {
	s := &Store{writer: newTables()}
	empty := newTables()
	s.current.Store(&View{t: empty})
	tx := s.Begin()
	tx.SetIndex(1)
	tx.seed()
	tx.Commit()
	return s
}

// View returns the newest committed state.
func (s *Store) View() *View { return s.current.Load() }

// Update runs fn in a transaction at the index and commits it. If fn returns an
// error nothing is changed.
func (s *Store) Update(index uint64, fn func(*Tx) error) error {
	tx := s.Begin()
	done := false
	defer func() {
		if !done {
			tx.Rollback()
		}
	}()
	tx.SetIndex(index)
	if err := fn(tx); err != nil {
		return err
	}
	tx.Commit()
	done = true
	return nil
}

// Begin starts a transaction; it waits for the one before it to end. It must be
// ended with Commit or Rollback.
func (s *Store) Begin() *Tx {
	s.mu.Lock()
	return &Tx{s: s, t: s.writer, index: s.View().index}
}
