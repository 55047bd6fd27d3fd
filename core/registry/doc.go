// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package registry owns the rules of the cluster's registry of plugins: which nodes a
// plugin targets, what a node should do about it, the status of each node, and the
// next step of a roll-out. All of this is derived from the spec and from the nodes'
// reports; nothing is counted.
//
// It is pure. It does not fetch or install anything: core/agent does. core/control/plugins,
// core/dispatch, core/api and cmd/drover import it.
package registry
