// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package worker owns the loop that turns evaluations into plans on the leader:
// take one from the queue, wait for the state that it needs, let core/schedule
// decide, submit the plan, try again on newer state if a part was refused, write
// what became of the evaluation, acknowledge.
//
// core/server runs as many Workers as it has processors to give.
package worker
