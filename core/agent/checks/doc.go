// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package checks runs the checks of the services of a node's allocs. It owns when a check
// runs (one heap and one timer for the whole node, a bounded number of checks at a time,
// and no goroutine or timer for a check that waits), the protocols http, tcp, grpc and
// script, and what the results mean: the status of a check, since when it counts as good,
// and when its task must be restarted. It does not know tasks, drivers or deployments:
// core/agent/alloc says which checks run, and acts on their results. Only core/agent and
// packages below it may import it.
package checks
