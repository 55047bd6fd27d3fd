// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package membership knows which servers of a cluster exist and whether they are alive:
// servers gossip about each other. It owns joining, leaving, the tags with which a server
// describes itself, the encryption keys of the gossip, and the rules that keep servers of
// different regions or clusters apart. It is the only package that imports
// hashicorp/serf. It does not decide who votes: core/autopilot does, on the leader.
// core/server and cmd/drover import it.
package membership
