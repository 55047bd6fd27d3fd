// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package queue owns where evaluations wait on the leader: the Broker hands
// pending ones to workers (by priority, one per job at a time, again if a worker fails),
// Blocked keeps those that wait for room and says which ones a change may help.
//
// It holds no truth: everything in it can be rebuilt from the evaluations in
// state, which core/server does when a server becomes leader. core/worker and
// core/server import it.
package queue
