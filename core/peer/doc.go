// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package peer connects a server with the other servers of its cluster: it keeps one
// connection per address, knows the leader, and brings to it what only the leader may
// answer. There is one rule for both HTTP requests (Do) and calls between servers: a
// request that has certainly done nothing, because the server that it reached does not lead
// or was not reached, is sent again for a short time, while an election may be under way; all
// other errors go to the caller. A request that another server has sent is never sent on,
// so two servers that take each other for the leader end it.
//
// The package decides nothing about the requests: which ones need the leader is said by the
// routes of core/api and by core/dispatch. Only core/server and cmd/drover/daemon import it.
package peer
