// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package state owns the servers' in-memory state: typed multi-version tables of jobs,
// allocs, evals, deployments, nodes and related objects. A View is a cheap immutable
// snapshot. A Tx writes through typed methods and is committed atomically. Watch and
// Subscribe report committed changes. One file per kind of object holds one literal (its
// name, id, indexes, watch keys, save and restore) and its writes; declared in tables.go
// gives the order in snapshots. docs/adr/0002 explains why the tables are our own.
//
// The package owns no log format (core/fsm) and makes no decisions: everything that it
// derives (job status, summaries, deployment counters, node usage, driver uses)
// follows from the rows alone. It reads no clock and generates no ids. Everything on
// the server side may import it to read; only core/fsm writes.
package state
