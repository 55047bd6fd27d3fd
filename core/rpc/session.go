// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Servers has the requests of a node to the servers. Classes of errors: Unavailable:
// retry, perhaps with another server; NotFound: the node must register first;
// FailedPrecondition: the node is not ready and must beat first; PermissionDenied: the
// secret is not the node's; AlreadyExists: another agent acts as the node; Conflict:
// the node belongs to another cluster; InvalidArgument: the request is invalid, and a
// retry does not help.
type Servers interface {
	// Register sends all properties of the node, at its start and after each change.
	// It also counts as a heartbeat.
	Register(ctx context.Context, node *model.Node) (Lease, error)
	// Change sends how the registration differs from the one that the Version of a lease
	// stands for. It also counts as a heartbeat. Aborted: the servers have another
	// registration. Unimplemented: they are too old. After either error the node must send
	// everything with Register.
	Change(ctx context.Context, change *model.NodeChange) (Lease, error)
	// Beat is the heartbeat. It is due before the lease ends.
	Beat(ctx context.Context, id Identity) (Lease, error)
	// Away announces a clean shutdown of the agent during which tasks keep running.
	// Servers wait longer for such an agent than for one that disappeared.
	Away(ctx context.Context, id Identity) error
	// PutDriverSchemas sends the schemas that a lease requested: see Lease.Missing. A
	// schema that no driver of the node publishes is rejected.
	PutDriverSchemas(ctx context.Context, id Identity, bodies [][]byte) error
	// UpdateAllocs reports the status of allocs. The batch is accepted or rejected as
	// a whole, except for allocs that the answer names. It may be repeated.
	UpdateAllocs(ctx context.Context, id Identity, reports []*model.AllocReport) (UpdateAnswer, error)
	// FetchAllocs returns complete allocs of the node, each with its Job. It leaves
	// out ids that no longer exist.
	FetchAllocs(ctx context.Context, id Identity, allocIDs []string) ([]*model.Allocation, error)
	// Variables reads variables on behalf of a job that runs on the node. It may wait
	// for a change, see VariableQuery.
	Variables(ctx context.Context, id Identity, q VariableQuery) (VariableAnswer, error)
	// Identities signs tokens for a task that the node runs. PermissionDenied: the node
	// does not have the task's alloc, or the alloc has ended. Unimplemented: the servers
	// are too old.
	Identities(ctx context.Context, id Identity, q IdentityQuery) (IdentityAnswer, error)
	// CheckToken returns nil if a living task of the cluster has the token for the API, and
	// PermissionDenied otherwise.
	CheckToken(ctx context.Context, id Identity, token string) error
	// ClaimVolume returns a volume that an alloc of the node needs, once it is attached to
	// the node. It may be repeated, which an agent does before it mounts the volume again
	// after a restart. Unavailable: it is not at the node yet, because another alloc or node
	// has it or its plugin does not answer; the text says which, and the call is to be
	// repeated until the alloc is to stop. PermissionDenied: the node does not have the
	// alloc, or the alloc has ended. InvalidArgument: the alloc can never have it.
	ClaimVolume(ctx context.Context, id Identity, q VolumeQuery) (VolumeGrant, error)
	// Services reads registrations of services on behalf of a job that runs on the node.
	// It may wait for a change, see ServiceQuery.
	Services(ctx context.Context, id Identity, q ServiceQuery) (ServiceAnswer, error)
	// Plugins returns the plugins that the registry assigns to the node.
	Plugins(ctx context.Context, id Identity) (PluginAnswer, error)
	// PluginFile reads an uploaded file by its digest and calls take with each chunk.
	// The caller verifies the digest.
	PluginFile(ctx context.Context, id Identity, digest string, take func([]byte) error) error
	// AllocData sends the data of the alloc that an alloc of the node replaces, from the
	// node that had it: take gets its parts in order. It waits until that alloc has ended.
	// Unavailable: a repetition, from the beginning, may help; all other errors are final.
	// NotFound: the data is lost.
	AllocData(ctx context.Context, id Identity, allocID string, take func(*DataPiece) error) error
	// Attach runs the node's session. It calls push with the assignments, first with
	// all of them and then with changes, and passes calls to node. It returns when ctx
	// ends, when push fails, when the servers lose the node, or when another session
	// of the node replaces it. push is called by one goroutine at a time.
	Attach(ctx context.Context, id Identity, node Node, push func(*Assignments) error) error
}

// Sessions is a Servers whose sessions need no goroutine that waits.
type Sessions interface {
	// Hold is Attach without its wait. It calls lose where Attach would return. The caller
	// ends ctx and then calls end, after which nothing is pushed; it may not call end from
	// push.
	Hold(ctx context.Context, id Identity, node Node, push func(*Assignments) error, lose func(error)) (end func(), err error)
}

// Identity identifies and authenticates a node.
type Identity struct {
	NodeID   string
	SecretID string
	// Instance identifies the agent's process: it distinguishes two agents with the
	// same identity. "" is not checked.
	Instance string
	// Session numbers the sessions of the process, so that servers know which of two is
	// the newer one. 0 is not compared.
	Session uint64
	// Seen is the newest position in its cluster's history on which the node has
	// acted, zero if it belongs to no cluster yet. Servers of another cluster refuse
	// it: see OtherCluster.
	Seen model.ClusterPoint
}

// identityBounds limits the texts of an identity.
var identityBounds = model.Bounds{Text: 128, Total: 512}

// Validate returns an error of class InvalidArgument if no node can have the identity. An
// identity is checked with each heartbeat, so its parts are named here.
func (id Identity) Validate() error {
	if err := model.ValidateNodeID(id.NodeID); err != nil {
		return err
	}
	longest, all := 0, 0
	for _, text := range []string{id.NodeID, id.SecretID, id.Instance, id.Seen.ClusterID, id.Seen.TermID} {
		longest, all = max(longest, len(text)), all+len(text)
	}
	if longest <= identityBounds.Text && all <= identityBounds.Total {
		return nil
	}
	return identityBounds.Check("the identity of node "+id.NodeID+": Identity", id)
}

// UpdateAnswer is the answer to accepted reports.
type UpdateAnswer struct {
	Index uint64
	// Whole lists allocs whose report was not accepted, because the servers lack the state
	// on which it builds: the node must send their full state.
	Whole []string
	// Pause is how long the node should wait until its next batch, because the servers are
	// loaded; 0 means as short as it likes.
	Pause time.Duration
}

// OtherCluster returns the error, of class Conflict, which says that the node belongs
// to another cluster than the servers.
func OtherCluster(nodes, servers string) error {
	return errdefs.Conflictf("the servers are of cluster %q and this node is of cluster %q: they were set up anew, or the node asks the wrong ones. "+
		"If the servers have lost their data, restore it; if the node shall join this cluster, run `drover node trust` on its machine: "+
		"what this cluster does not know is stopped then", servers, nodes)
}

// Lease is how long the servers consider a node alive without a further heartbeat.
type Lease struct {
	TTL time.Duration
	// Index is the index of the state when the lease was granted.
	Index uint64
	// Servers are the addresses of all servers, in case the node must change to
	// another.
	Servers []string
	// Missing are the hashes of schemas of the node's drivers that the servers do not
	// have yet.
	Missing []string
	// ClusterID is the id of the servers' cluster.
	ClusterID string
	// Version is a number that only the content of the node's registration in the state
	// has, in the answer to a registration: see Servers.Change. 0: the servers do not say.
	Version uint64
	// Now is the server's clock in the answer to a registration. Zero: it does not say.
	Now time.Time
	// Identity is a new identity for the node, which it shows in its registrations; "" if
	// it keeps what it has.
	Identity string
}

// BeatAfter returns how long after an answer the next heartbeat is due: two thirds of the
// lease. The last third is for a heartbeat that is late because a machine is slow for a moment.
// An open connection loses no heartbeat, so none is sent twice.
func (l Lease) BeatAfter() time.Duration {
	return min(max(l.TTL*2/3, 100*time.Millisecond), 10*time.Minute)
}

// BeatEarlier returns the lease that is shorter so that the heartbeat is due earlier by this.
func (l Lease) BeatEarlier(by time.Duration) Lease {
	l.TTL -= by * 3 / 2 // a node waits for two thirds of it
	return l
}

// Assignments are the allocs that a node should run. A node drops a message whose
// Index is lower than what it has seen.
type Assignments struct {
	Index uint64
	// Full means that Set is complete: allocs of the node that are not in it no longer
	// exist. Otherwise Set contains only changes.
	Full bool
	// Confirmed means that a leader has confirmed the message and the history behind
	// it. Only then may a node stop allocs that are missing from a full set, and only
	// then does the node record this position as seen.
	Confirmed bool
	// ClusterID, TermID and Index are the position of the message in the cluster's
	// history.
	ClusterID, TermID string
	// Lost means that the servers' history lacks something that this node has seen, because
	// an older copy of their data was restored. The node must then not stop allocs that are
	// missing from Set. Only a Full and Confirmed message can have it.
	Lost bool
	Set  []Assignment
	// Fresh are allocs of Set that the node cannot know yet, each with its Job: it need not
	// fetch them. Those that are not among them it must fetch.
	Fresh []*model.Allocation `wire:"-"` // see toNode.Fresh
	// Gone are allocs that the servers have removed.
	Gone []string
	// Plugins means that the registry's assignments for the node may have changed: the
	// node should request them, as after each full set.
	Plugins bool
}

// Assignment is one assigned alloc. The node fetches it if AllocModifyIndex is higher
// than its own.
type Assignment struct {
	AllocID          string
	AllocModifyIndex uint64
	// DesiredStatus is one of model.AllocDesiredStatus*. A node may stop an alloc
	// without fetching it.
	DesiredStatus string
	// Reported is the model.Allocation.ReportDigest of the servers' version of the
	// alloc. A node whose report has the same digest need not send it.
	Reported uint64
}

// Node has the requests of servers to a node.
type Node interface {
	// Call executes one request of an operator. in delivers further input until it is
	// closed (exec); it is nil if there is none. If the call breaks off, ctx is
	// canceled before in is closed. send takes the parts of the answer in order; a
	// request with a single answer calls it once.
	Call(ctx context.Context, call Call, in <-chan []byte, send func([]byte) error) error
}

// Call is a request to a node.
type Call struct {
	Method string
	// Body is the request as JSON, of the type that belongs to Method.
	Body []byte
}
