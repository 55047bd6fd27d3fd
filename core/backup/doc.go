// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package backup takes snapshots of the servers' state at intervals, stores them in a
// folder or in a bucket of an S3-compatible store, verifies what it stored, and removes the
// oldest. The leader runs it for the `snapshot` block of the configuration (core/server), and
// `drover operator snapshot agent` runs it in a process of its own (cmd/drover). core/api and
// core/config import it for its types.
//
// An Agent remembers nothing but the stored snapshots. Each round begins with a look at the
// newest of them. So an agent that was killed continues where it stopped, a new leader
// continues where the old one stopped, and several agents with one store take turns.
package backup
