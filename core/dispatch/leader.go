// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Leader has the calls from the Dispatcher of every server to the leader. The Dispatcher of
// that server implements it, see Dispatcher.Leading; core/peer carries it between servers.
// All errors are classed: Unavailable means that no leader answered, or that the server
// that answered no longer leads. All calls may be repeated. server is the id of the calling
// server, which has the node's session.
type Leader interface {
	// Report reports which nodes a server hears. A server sends one report at a time, and
	// at least one per interval: its nodes live only as long as it reports.
	Report(ctx context.Context, r Report) (ReportAnswer, error)
	// Confirm returns the newest position in the cluster's history, after a quorum has
	// confirmed that the server still leads. A state that contains the position contains
	// everything that was written before the call.
	Confirm(ctx context.Context) (model.ClusterPoint, error)
	// Holder returns the id of the server that has the node's session. The error is
	// NotFound if no server has it.
	Holder(ctx context.Context, nodeID string) (server string, err error)
	// Register is rpc.Servers.Register without the lease.
	Register(ctx context.Context, server string, node *model.Node) (Registered, error)
	// Change is rpc.Servers.Change without the lease.
	Change(ctx context.Context, server string, change *model.NodeChange) (Registered, error)
	// Ready makes a node ready that was down or disconnected and is heard again. It
	// returns the index of the state in which the node is ready.
	Ready(ctx context.Context, server string, id rpc.Identity) (index uint64, err error)
	// Away is rpc.Servers.Away.
	Away(ctx context.Context, server string, id rpc.Identity) error
	// UpdateAllocs is rpc.Servers.UpdateAllocs.
	UpdateAllocs(ctx context.Context, id rpc.Identity, reports []*model.AllocReport) (rpc.UpdateAnswer, error)
	// PutDriverSchemas is rpc.Servers.PutDriverSchemas. It returns the index of the
	// state that contains the schemas.
	PutDriverSchemas(ctx context.Context, id rpc.Identity, bodies [][]byte) (index uint64, err error)
	// ClaimVolume is rpc.Servers.ClaimVolume. It answers within 20 seconds.
	ClaimVolume(ctx context.Context, id rpc.Identity, q rpc.VolumeQuery) (rpc.VolumeGrant, error)
}

// Registered is the answer to a registration.
type Registered struct {
	// Index is the index of the state that contains the registration.
	Index uint64
	// Version is the Version of rpc.Lease.
	Version uint64
}

// Report is a server's report to the leader about the nodes that it hears. Nodes that it
// does not mention are unchanged. A report that the leader has not acknowledged, or that
// follows a gap, is replaced by a Full one; older ones that arrive late are ignored. So a
// lost, repeated or reordered report does no harm.
type Report struct {
	Server string
	// Boot identifies the server's process, Number orders its reports.
	Boot   string
	Number uint64
	// Full means that Heard contains all nodes that the server hears.
	Full bool
	// Heard are nodes that the server has begun to hear since the previous report, or
	// that have a new session.
	Heard []HeardNode
	// Late are all nodes that have missed a heartbeat and have not ended their session,
	// with the time since they were last heard.
	Late []NodeAge
	// Left are nodes whose session has ended since the previous report, with the time
	// since then.
	Left []NodeAge
}

// reportBounds limit the size of a report. They allow more nodes than any cluster has.
var reportBounds = model.Bounds{Text: 256, Entries: 1 << 18, Total: 64 << 20}

// Validate returns an error of class InvalidArgument if no server can have sent the report.
func (r Report) Validate() error {
	if r.Server == "" {
		return errdefs.InvalidArgumentf("the report of a server's nodes does not name the server")
	}
	for _, list := range [][]NodeAge{r.Late, r.Left} {
		for _, n := range list {
			if n.Age < 0 {
				return errdefs.InvalidArgumentf("the report of server %.80q has a node whose age is %s", r.Server, n.Age)
			}
		}
	}
	return reportBounds.Check("the report of a server's nodes: ", r)
}

// HeardNode is a node at a server. Instance and Session come from its rpc.Identity.
type HeardNode struct {
	NodeID   string
	Instance string
	Session  uint64
}

// NodeAge says how long ago something happened to a node. Times are not compared between
// servers, because their clocks may differ.
type NodeAge struct {
	NodeID string
	// Session is the session that has ended; 0 in Late.
	Session uint64
	Age     time.Duration
}

// ReportAnswer is the leader's answer to a report.
type ReportAnswer struct {
	// Again means that the leader needs a Full report.
	Again bool
	// Elsewhere are nodes in Heard that have a newer session with another server, or whose
	// identity another agent uses at another server. The server ends its session.
	Elsewhere []NodeElsewhere
}

// NodeElsewhere is a node that another server hears.
type NodeElsewhere struct {
	HeardNode
	// Server hears the node.
	Server string
	// Twice means that another agent with the same identity is at the other server.
	Twice bool
}

// Peers reaches nodes through other servers. core/peer implements it; the other server
// answers with Dispatcher.Attached.
type Peers interface {
	// Node returns a node whose calls go through the given server.
	Node(server, nodeID string) (rpc.Node, error)
}
