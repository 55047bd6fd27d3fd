// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package backup takes snapshots of the servers' state at intervals, stores them in a
// folder or in a bucket of an S3-compatible store, verifies what it stored, and removes the
// oldest. The leader runs it for the `snapshot` block of the configuration, and `drover
// operator snapshot agent` runs it in a process of its own: core/server and cmd/drover
// import it.
//
// What is stored is the only memory of an Agent. Each round begins with a look at the newest
// stored snapshot, so an agent that was killed goes on where it was, a new leader goes on
// where the old one was, and several agents with one store take turns.
package backup
