// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package cgroup owns the cgroups of isolated tasks: it makes them with their limits, measures
// and kills the processes in them, and removes them. The supervisor of tasks makes its cgroups
// itself, because it needs them even while no agent runs; plugins of others get theirs from the
// host (docs/adr/0022-cgroups-made-by-the-host.md). sdk/isolation starts processes in them. Only
// plugins may import it.
package cgroup
