// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package servers plays clusters of servers in one process, on a simulated network, disk and
// clock: raft, the log's commands and the state are those of real servers, everything around
// them is not. See ADR 0044. Nothing imports it.
package servers
