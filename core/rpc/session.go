// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Servers is what a node asks of the servers. An error of class Unavailable
// means: try again, perhaps elsewhere; NotFound: register first;
// FailedPrecondition: the node is not ready, beat first; PermissionDenied: the
// secret is not the node's; AlreadyExists: another agent acts as the node;
// Conflict: the node belongs to another cluster;
// InvalidArgument: the request makes no sense, and repeating it does not help.
type Servers interface {
	// Register tells everything about the node, at the start and after each
	// change. It also counts as a beat.
	Register(ctx context.Context, node *model.Node) (Lease, error)
	// Beat says that the node is alive. It is due before the lease ends.
	Beat(ctx context.Context, id Identity) (Lease, error)
	// Away says that the agent ends in good order and that the node's tasks go on: it
	// will be back soon. The servers wait longer for it than for one that broke off.
	Away(ctx context.Context, id Identity) error
	// PutDriverSchemas brings bodies that a lease asked for: see Lease.Missing. One
	// that no driver of the node publishes is refused.
	PutDriverSchemas(ctx context.Context, id Identity, bodies [][]byte) error
	// UpdateAllocs reports what became of allocs. The batch is accepted or refused
	// as a whole, except for allocs that the answer names. It may be repeated.
	UpdateAllocs(ctx context.Context, id Identity, reports []*model.AllocReport) (UpdateAnswer, error)
	// FetchAllocs returns allocs of the node as a whole, each with its Job. Ids
	// that are gone are left out.
	FetchAllocs(ctx context.Context, id Identity, allocIDs []string) ([]*model.Allocation, error)
	// Variables reads variables on behalf of a job that runs on the node. It may
	// wait for a change, see VariableQuery.
	Variables(ctx context.Context, id Identity, q VariableQuery) (VariableAnswer, error)
	// Plugins tells what the cluster's registry of plugins wants of the node.
	Plugins(ctx context.Context, id Identity) (PluginAnswer, error)
	// PluginFile reads a file that was uploaded to the servers, by its digest, and
	// calls take with each piece. The reader checks the digest.
	PluginFile(ctx context.Context, id Identity, digest string, take func([]byte) error) error
	// Attach is the session: it calls push with what the node shall run, first
	// with everything, then with what changes, and passes calls to node. It
	// returns when ctx ends, when push fails, when the servers lose the node, or
	// when another session of the node takes its place. push is called by one
	// goroutine at a time.
	Attach(ctx context.Context, id Identity, node Node, push func(*Assignments) error) error
}

// Identity is by which a node proves to be itself.
type Identity struct {
	NodeID   string
	SecretID string
	// Instance is of the agent's process: it tells two agents with one identity
	// apart. "" is not checked.
	Instance string
	// Seen is the newest state of its cluster that the node has acted upon, zero if
	// it belongs to none yet. Servers of another cluster refuse it: see OtherCluster.
	Seen model.ClusterPoint
}

// identityBounds are how long the texts of an identity may be.
var identityBounds = model.Bounds{Text: 128, Total: 512}

// Validate refuses, with an error of class InvalidArgument, what no node is
// identified by.
func (id Identity) Validate() error {
	if err := model.ValidateNodeID(id.NodeID); err != nil {
		return err
	}
	return identityBounds.Check("the identity of node "+id.NodeID+": Identity", id)
}

// UpdateAnswer is the answer to reports that were accepted.
type UpdateAnswer struct {
	Index uint64
	// Whole are allocs whose report was not taken, since the servers lack what it
	// builds on: the node sends them whole.
	Whole []string
}

// OtherCluster is the error, of class Conflict, by which servers and node tell each
// other that the node belongs to another cluster.
func OtherCluster(nodes, servers string) error {
	return errdefs.Conflictf("the servers are of cluster %q and this node is of cluster %q: they were set up anew, or the node asks the wrong ones. "+
		"If the servers have lost their data, restore it; if the node shall join this cluster, run `drover node trust` on its machine: "+
		"what this cluster does not know is stopped then", servers, nodes)
}

// Lease is how long the servers take a node for alive without another word.
type Lease struct {
	TTL time.Duration
	// Index is that of the state when the lease was given.
	Index uint64
	// Servers are the addresses of all servers, for a node that must change.
	Servers []string
	// Missing are the hashes of schemas that the node's drivers publish and that the
	// servers do not have yet.
	Missing []string
	// ClusterID is that of the servers' cluster.
	ClusterID string
}

// Assignments is what a node shall run. A node drops one whose Index is below
// what it has seen.
type Assignments struct {
	Index uint64
	// Full says that Set is everything: what the node has beside it is gone.
	// Otherwise Set holds what changed.
	Full bool
	// Confirmed says that a leader vouches for it and for the history behind it: only
	// then may a node stop allocs because they are missing from a full set, and only
	// then has it seen this point of the history.
	Confirmed bool
	// ClusterID and TermID say, with Index, where in the cluster's history this is.
	ClusterID, TermID string
	// Lost says, of a full set that is Confirmed, that the history of the servers
	// lacks what this node has seen (an older copy of their data was put back): that
	// an alloc is missing does not mean then that it shall stop.
	Lost bool
	Set  []Assignment
	// Gone are allocs that the servers have forgotten.
	Gone []string
	// Plugins says that the registry may want something else of the node: it shall
	// ask, as after each full set.
	Plugins bool
}

// Assignment is one alloc. The node fetches it if AllocModifyIndex is above what
// it has.
type Assignment struct {
	AllocID          string
	AllocModifyIndex uint64
	// DesiredStatus is one of model.AllocDesiredStatus*; a node may stop an
	// alloc without fetching it.
	DesiredStatus string
	// Reported is the model.Allocation.ReportDigest of what the servers know of the
	// alloc: a node that would say the same need not say it.
	Reported uint64
}

// Node is what the servers ask of a node.
type Node interface {
	// Call carries out one request of an operator. in brings further input until
	// it is closed (exec); it is nil if there is none. A call that breaks off ends
	// ctx before it closes in. send takes each piece of
	// the answer in order; for a request with one answer it is called once.
	Call(ctx context.Context, call Call, in <-chan []byte, send func([]byte) error) error
}

// Call is one request to a node.
type Call struct {
	Method string
	// Body is the request as JSON: the type that belongs to Method.
	Body []byte
}
