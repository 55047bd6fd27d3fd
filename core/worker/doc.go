// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package worker owns the loop that turns evaluations into plans on the leader: it
// dequeues an evaluation, waits for the state that it needs, calls core/schedule,
// submits the plan, retries on newer state if a part was rejected, stores the result,
// and acknowledges.
//
// core/server runs the configured number of Workers; nothing else imports the package.
package worker
