// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer

import (
	"context"
	"errors"
	"time"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// callLimit is the time limit of a call to the leader, for callers without one.
const callLimit = 30 * time.Second

// Sessions answers the calls between servers about the sessions of nodes: as the leader,
// and as the server of a session.
type Sessions interface {
	// Leading returns the calls of the leader, which this server answers while it leads.
	Leading() dispatch.Leader
	// Attached returns a node that is attached to this server.
	Attached(nodeID string) (rpc.Node, bool)
}

// leaderCall is a call to the leader. All of them may be repeated.
type leaderCall[Request, Reply any] struct {
	name string
	do   func(context.Context, *Peers, *Request) (Reply, error)
}

type (
	nothing    struct{}
	nodeName   struct{ ID string }
	serverName struct{ ID string }
	atIndex    struct{ Index uint64 }
	nodeAt     struct {
		Server string
		Node   *model.Node
	}
	changeAt struct {
		Server string
		Change *model.NodeChange
	}
	identityAt struct {
		Server string
		ID     rpc.Identity
	}
	reportsOf struct {
		ID      rpc.Identity
		Reports []*model.AllocReport
	}
	volumeFor struct {
		ID    rpc.Identity
		Query rpc.VolumeQuery
	}
	schemasOf struct {
		ID     rpc.Identity
		Bodies [][]byte
	}
)

var (
	callReport = leaderCall[dispatch.Report, dispatch.ReportAnswer]{"Report", func(ctx context.Context, p *Peers, r *dispatch.Report) (dispatch.ReportAnswer, error) {
		return p.sessions.Leading().Report(ctx, *r)
	}}
	callConfirm = leaderCall[nothing, model.ClusterPoint]{"Confirm", func(ctx context.Context, p *Peers, _ *nothing) (model.ClusterPoint, error) {
		return p.sessions.Leading().Confirm(ctx)
	}}
	callHolder = leaderCall[nodeName, serverName]{"Holder", func(ctx context.Context, p *Peers, n *nodeName) (serverName, error) {
		server, err := p.sessions.Leading().Holder(ctx, n.ID)
		return serverName{server}, err
	}}
	callRegister = leaderCall[nodeAt, dispatch.Registered]{"Register", func(ctx context.Context, p *Peers, n *nodeAt) (dispatch.Registered, error) {
		return p.sessions.Leading().Register(ctx, n.Server, n.Node)
	}}
	callChange = leaderCall[changeAt, dispatch.Registered]{"Change", func(ctx context.Context, p *Peers, c *changeAt) (dispatch.Registered, error) {
		return p.sessions.Leading().Change(ctx, c.Server, c.Change)
	}}
	callReady = leaderCall[identityAt, atIndex]{"Ready", func(ctx context.Context, p *Peers, n *identityAt) (atIndex, error) {
		index, err := p.sessions.Leading().Ready(ctx, n.Server, n.ID)
		return atIndex{index}, err
	}}
	callAway = leaderCall[identityAt, nothing]{"Away", func(ctx context.Context, p *Peers, n *identityAt) (nothing, error) {
		return nothing{}, p.sessions.Leading().Away(ctx, n.Server, n.ID)
	}}
	callUpdateAllocs = leaderCall[reportsOf, rpc.UpdateAnswer]{"UpdateAllocs", func(ctx context.Context, p *Peers, u *reportsOf) (rpc.UpdateAnswer, error) {
		return p.sessions.Leading().UpdateAllocs(ctx, u.ID, u.Reports)
	}}
	callSchemas = leaderCall[schemasOf, atIndex]{"PutDriverSchemas", func(ctx context.Context, p *Peers, s *schemasOf) (atIndex, error) {
		index, err := p.sessions.Leading().PutDriverSchemas(ctx, s.ID, s.Bodies)
		return atIndex{index}, err
	}}
	callClaimVolume = leaderCall[volumeFor, rpc.VolumeGrant]{"ClaimVolume", func(ctx context.Context, p *Peers, v *volumeFor) (rpc.VolumeGrant, error) {
		grant, err := p.sessions.Leading().ClaimVolume(ctx, v.ID, v.Query)
		if errdefs.IsUnavailable(err) && !propose.NotLeader(err) {
			return rpc.VolumeGrant{}, errdefs.Abortedf("%w", err) // it is repeated by the node, not here
		}
		return grant, err
	}}
	callAcceptKey = leaderCall[model.ServerKey, nothing]{"AcceptKey", func(ctx context.Context, p *Peers, k *model.ServerKey) (nothing, error) {
		return nothing{}, p.cfg.AcceptKey(ctx, k)
	}}
)

// Answer makes this server's Leader answer with own while this server leads. It must be
// called before Leader is used.
func (p *Peers) Answer(own Sessions) { p.sessions = own }

// Serve makes s answer the calls of other servers. It must be called after Answer and
// before s.Serve.
func (p *Peers) Serve(s *rpc.Server) {
	s.ServePeers(p.sessions.Attached, served(p, callReport), served(p, callConfirm), served(p, callHolder), served(p, callRegister), served(p, callChange),
		served(p, callReady), served(p, callAway), served(p, callUpdateAllocs), served(p, callSchemas), served(p, callClaimVolume), served(p, callAcceptKey), p.fileParts(), p.keepFiles())
}

// served is a call as the leader answers it. What another server sends is never sent on.
func served[Request, Reply any](p *Peers, c leaderCall[Request, Reply]) rpc.PeerMethod {
	return rpc.NewPeerMethod(c.name, func(ctx context.Context, r *Request) (Reply, error) {
		if !p.Leads() {
			var none Reply
			return none, elsewhere()
		}
		return c.do(ctx, p, r)
	})
}

// ask makes a call to the leader, wherever it is. It repeats it for a while if there is
// none, or if the leader is lost before it answers.
func ask[Request, Reply any](ctx context.Context, p *Peers, c leaderCall[Request, Reply], r *Request) (reply Reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err = p.lead(ctx, func(ctx context.Context) (err error) {
		reply, err = c.do(ctx, p, r)
		return repeatable(ctx, err)
	}, func(ctx context.Context, to leader) (err error) {
		ctx, _, stop := p.whileLeading(ctx, to)
		defer stop()
		reply, err = rpc.AskPeer[Reply](ctx, to.Client, c.name, r)
		return repeatable(ctx, err)
	})
	return reply, err
}

// repeatable marks an error after which the call is repeated.
func repeatable(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errDeposed):
		return errNotSent{errDeposed}
	case errdefs.IsUnavailable(err) && ctx.Err() == nil:
		return errNotSent{err}
	}
	return err
}

// ForSessions returns the leader as core/dispatch asks it, wherever it is.
func (p *Peers) ForSessions() dispatch.Leader { return theLeader{p} }

// AnnounceKey brings the public key of this server to the leader.
func (p *Peers) AnnounceKey(ctx context.Context, key *model.ServerKey) error {
	_, err := ask(ctx, p, callAcceptKey, key)
	return err
}

// theLeader implements dispatch.Leader.
type theLeader struct{ p *Peers }

func (l theLeader) Report(ctx context.Context, r dispatch.Report) (dispatch.ReportAnswer, error) {
	return ask(ctx, l.p, callReport, &r)
}

func (l theLeader) Confirm(ctx context.Context) (model.ClusterPoint, error) {
	return ask(ctx, l.p, callConfirm, &nothing{})
}

func (l theLeader) Holder(ctx context.Context, nodeID string) (string, error) {
	name, err := ask(ctx, l.p, callHolder, &nodeName{nodeID})
	return name.ID, err
}

func (l theLeader) Register(ctx context.Context, server string, node *model.Node) (dispatch.Registered, error) {
	return ask(ctx, l.p, callRegister, &nodeAt{server, node})
}

func (l theLeader) Change(ctx context.Context, server string, change *model.NodeChange) (dispatch.Registered, error) {
	return ask(ctx, l.p, callChange, &changeAt{server, change})
}

func (l theLeader) Ready(ctx context.Context, server string, id rpc.Identity) (uint64, error) {
	at, err := ask(ctx, l.p, callReady, &identityAt{server, id})
	return at.Index, err
}

func (l theLeader) Away(ctx context.Context, server string, id rpc.Identity) error {
	_, err := ask(ctx, l.p, callAway, &identityAt{server, id})
	return err
}

func (l theLeader) UpdateAllocs(ctx context.Context, id rpc.Identity, reports []*model.AllocReport) (rpc.UpdateAnswer, error) {
	return ask(ctx, l.p, callUpdateAllocs, &reportsOf{id, reports})
}

func (l theLeader) PutDriverSchemas(ctx context.Context, id rpc.Identity, bodies [][]byte) (uint64, error) {
	at, err := ask(ctx, l.p, callSchemas, &schemasOf{id, bodies})
	return at.Index, err
}

func (l theLeader) ClaimVolume(ctx context.Context, id rpc.Identity, q rpc.VolumeQuery) (rpc.VolumeGrant, error) {
	grant, err := ask(ctx, l.p, callClaimVolume, &volumeFor{id, q})
	if errdefs.IsAborted(err) {
		err = errdefs.Unavailablef("%w", err)
	}
	return grant, err
}

// Node returns a node whose calls go through another server. It implements dispatch.Peers.
func (p *Peers) Node(server, nodeID string) (rpc.Node, error) {
	address := p.cfg.Address(server)
	if address == "" {
		return nil, errdefs.Unavailablef("No path to node %q: its server %s is not a member of the cluster any more; retry", nodeID, server)
	}
	c, err := p.Client(address)
	if err != nil {
		return nil, err
	}
	return nodeThrough{c, nodeID}, nil
}

// nodeThrough is a node that is attached to another server.
type nodeThrough struct {
	server *rpc.Client
	nodeID string
}

// Call implements rpc.Node.
func (n nodeThrough) Call(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error {
	within, cancel := context.WithTimeout(ctx, reaching)
	err := n.server.Reach(within)
	cancel()
	if err != nil {
		return err
	}
	return n.server.CallNode(ctx, n.nodeID, call, in, send)
}
