// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package queue owns the queues of evaluations on the leader. The Broker delivers
// pending evaluations to workers (lane by lane and by priority, one per job at a time, again if a
// worker fails). Blocked holds evaluations that wait for resources and decides which
// ones a change may help.
//
// It holds no state of record: everything can be rebuilt from the evaluations in state,
// which worker.Feeder does when a server becomes leader. core/worker and core/server import
// it.
package queue
