// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package registry owns the rules of the cluster's registry of plugins: which
// nodes a plugin is for, what one node should do about it, where it stands, and
// what the next step of a roll-out is. All of it is derived from the spec and
// from what nodes say of themselves; nothing is counted.
//
// It is pure. core/control/plugins acts by it, core/dispatch tells nodes by it,
// core/api shows it. It fetches and installs nothing: that is core/agent.
package registry
