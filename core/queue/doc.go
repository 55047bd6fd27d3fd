// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package queue owns the queues of evaluations on the leader. The Broker delivers pending
// evaluations to workers, lane by lane and by priority. Of each job it delivers one evaluation
// at a time, and it delivers an evaluation again if its worker fails. Blocked holds evaluations
// that wait for resources, and decides which of them a change may help.
//
// The queues are not stored anywhere: worker.Feeder rebuilds them from the evaluations in state
// when a server becomes leader. Only core/worker and core/server may import the package.
package queue
