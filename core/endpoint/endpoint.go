// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package endpoint implements the public requests of a server: it converts the draft
// of a job to a canonical job, validates it, generates ids and times, and proposes a
// Command. It implements the interfaces that core/api declares for jobs, allocs,
// nodes, deployments, evals and the system. It holds no state of its own and does not
// know HTTP. core/server imports it.
package endpoint

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/auth/nodetoken"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginfiles"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Raft is the part of consensus that endpoints use.
type Raft interface {
	propose.Log
	VerifyLeader(ctx context.Context) error
	HasLeader() bool
	// LastContact returns how long ago this server heard of the leader: 0 for the leader.
	LastContact() time.Duration
}

// Config holds the dependencies and settings of an Endpoint.
type Config struct {
	Store  *state.Store
	Raft   Raft
	Region string
	// Address and Datacenter of this server, which nodes receive.
	Address    string
	Datacenter string
	// Nodes returns a node that has a session. Unavailable: it has none.
	Nodes func(nodeID string) (rpc.Node, error)
	// LocalNode is the id of the node in this process, "" if there is none.
	LocalNode func() string
	// CollectGarbage removes all ended objects, regardless of their age.
	CollectGarbage func(ctx context.Context) error
	// Keyring encrypts variables.
	Keyring *keyring.Keyring
	// Tokens issues the tokens that introduce nodes.
	Tokens *nodetoken.Tokens
	// Issuer is the base of the URLs of the OIDC discovery document, "" for none. RSA makes
	// an RSA key with every root key.
	Issuer string
	RSA    bool
	// PluginRegistry allows clients to change the registry of plugins. PluginFiles
	// stores uploaded files.
	PluginRegistry bool
	PluginFiles    PluginFiles
	// Admit asks whether an evaluation of a namespace may come to the queue of a node pool,
	// before it is written; nil means yes. ResourceExhausted: the queue is full.
	Admit func(namespace, pool string) (release func(), err error)
	// Lanes describes the lanes of the leader's queue; nil means that there are none.
	Lanes func() []*api.QueueLane
	// History has what was removed from the state; nil means that nothing is kept.
	History History
	// Consul are the identities for clusters of Consul, by their names.
	Consul map[string]ConsulIdentities
	// Jobs are the limits of jobs.
	Jobs JobLimits
	// Autopilot returns the configuration of autopilot that acts; nil means the
	// configuration in the state.
	Autopilot func() *model.AutopilotConfiguration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// History is the history of this server: see core/history.
type History interface {
	Deployments(ctx context.Context, q model.PastQuery) ([]*model.PastDeployment, model.HistoryExtent, error)
	Evaluations(ctx context.Context, q model.PastQuery) ([]*model.PastEvaluation, model.HistoryExtent, error)
}

// PluginFiles are the uploaded files of plugins: see core/pluginfiles/mirror.
type PluginFiles interface {
	// Put stores a file on more than half of the servers.
	Put(ctx context.Context, digest string, body io.Reader) (pluginfiles.File, error)
	// Stat describes a file of this server.
	Stat(digest string) (pluginfiles.File, error)
	// Have copies a file to this server from another server, unless this one has it.
	// NotFound: no server has it.
	Have(ctx context.Context, digest string) error
}

// Endpoint implements the public requests of one server.
type Endpoint struct {
	Config
	Calls
	signing sync.Mutex // held while a signing key is created
	taking  sync.Mutex // held while a volume of a driver gets its row
	bodies  bodies
	first   atomic.Pointer[state.Feed] // created with the Endpoint and not taken yet: see Changes
}

var (
	_ api.Reads       = (*Endpoint)(nil)
	_ api.Jobs        = (*Endpoint)(nil)
	_ api.Allocs      = (*Endpoint)(nil)
	_ api.Nodes       = (*Endpoint)(nil)
	_ api.Deployments = (*Endpoint)(nil)
	_ api.Evals       = (*Endpoint)(nil)
	_ api.History     = (*Endpoint)(nil)
	_ api.System      = (*Endpoint)(nil)
	_ api.Client      = (*Endpoint)(nil)
	_ api.Variables   = (*Endpoint)(nil)
	_ api.Keyring     = (*Endpoint)(nil)
)

// New returns an Endpoint.
func New(cfg Config) *Endpoint {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	e := &Endpoint{Config: cfg}
	e.first.Store(cfg.Store.Subscribe(api.EventTables...))
	e.Calls = Calls{OfAlloc: e.nodeOf, ByID: e.anyNode}
	return e
}

func newID() string { return uuid.NewString() }

// propose commits a command and returns its index.
func (e *Endpoint) propose(ctx context.Context, cmd fsm.Command) (uint64, error) {
	return propose.Bounded(ctx, e.Raft, cmd)
}

// newEval returns a pending eval of a job.
func (e *Endpoint) newEval(job *model.Job, trigger string) *model.Evaluation {
	return model.NewEvaluation(newID(), trigger, job, e.Now())
}

// Ready returns at once for a stale read. Otherwise this server must still be the leader
// after the call: a server that was suspended or cut off may not know yet that another one
// leads.
func (e *Endpoint) Ready(ctx context.Context, mode api.ReadMode) (api.ReadMeta, error) {
	meta := api.ReadMeta{KnownLeader: e.Raft.HasLeader(), LastContactMS: e.Raft.LastContact().Milliseconds()}
	switch {
	case mode == api.ReadStale:
		return meta, nil
	case !meta.KnownLeader:
		return meta, errdefs.WithReason(errdefs.Unavailablef("No cluster leader"), propose.ReasonNotLeader)
	}
	return meta, e.Raft.VerifyLeader(ctx)
}

// View returns the newest committed state.
func (e *Endpoint) View() api.View { return e.Store.View() }

// Watch returns a channel that is closed at the next change of any of the keys.
func (e *Endpoint) Watch(ctx context.Context, keys ...state.Key) <-chan struct{} {
	return e.Store.Watch(ctx, keys...)
}

// Changes starts a feed of committed changes, which ends with ctx. The first feed
// begins at the creation of the Endpoint.
func (e *Endpoint) Changes(ctx context.Context) (api.ChangeFeed, error) {
	f := e.first.Swap(nil)
	if f == nil {
		f = e.Store.Subscribe(api.EventTables...)
	}
	context.AfterFunc(ctx, f.Close)
	return feed{f}, nil
}

// feed is a feed of state with the errors of the API.
type feed struct{ *state.Feed }

// Next waits for changes. A reader that was too slow gets a *api.LostChangesError.
func (f feed) Next(ctx context.Context) ([]state.Change, error) {
	b, err := f.Feed.Next(ctx)
	if err != nil {
		return nil, err
	}
	if b.Resync {
		return nil, &api.LostChangesError{Index: b.Index}
	}
	return b.Changes, nil
}
