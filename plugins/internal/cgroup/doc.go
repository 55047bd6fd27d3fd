// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package cgroup makes the cgroups of isolated tasks with their limits, kills their
// processes, measures them, and removes them. The supervisor of tasks has cgroups of its
// own because it needs them before an agent runs; plugins of others get theirs from the
// host (docs/adr/0022-cgroups-made-by-the-host.md). Processes enter them by sdk/isolation.
package cgroup
