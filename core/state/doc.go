// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package state owns the servers' memory: typed multi-version tables of jobs,
// allocs, evals, deployments, nodes and what surrounds them. A View is a cheap
// immutable snapshot; a Tx writes through typed methods and is committed as a
// whole; Watch and Subscribe tell of committed changes. One file per object
// holds its schema, indexes, writes, save and restore; docs/adr/0002 says why
// the tables are our own.
//
// It owns no log format (core/fsm) and no decisions: what it derives on its own
// (job status, summaries, deployment counters, node usage, uses of drivers) follows
// from the rows alone. It reads no clock and makes no ids. Everything on the server side may
// import it to read; only core/fsm writes.
package state
