// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package peer connects a server with the other servers of its cluster: it keeps one
// connection per address, knows the leader, and sends it the requests that only the leader may
// answer. HTTP requests (Do) and calls between servers follow the same rule: a request that has
// certainly done nothing, because it reached no server or one that does not lead, is repeated
// for a short time, since an election may be in progress. HTTP requests that only read are
// repeated after other failures, too. All other errors go to the caller. A server never forwards
// a request that another server has forwarded to it, so no request goes round between two
// servers that each take the other one for the leader.
//
// The package does not decide which requests need the leader: the routes of core/api and
// core/dispatch do. Only core/server may import it.
package peer
