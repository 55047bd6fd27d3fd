// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package volumes plays the way of a volume from alloc to alloc: the real keepers of three nodes
// (core/agent/storage) and of the leader (core/control/claims) run on a storage plugin that
// fails, hangs, answers late and restarts at each call, while agents and servers are killed and
// nodes are lost. Whatever happens, a volume is never taken from under its writer, it has one
// writer, and in the end nothing is left of it. Drivers that lie or forget are below the
// contract of storage plugins, and are played in plugins/csi.
package volumes
