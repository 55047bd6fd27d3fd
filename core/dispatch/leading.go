// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// leading is the Dispatcher as the other servers see it while it leads.
type leading struct{ d *Dispatcher }

// Leading returns the Leader that answers for this server. Its calls fail with class
// Unavailable while this server does not lead.
func (d *Dispatcher) Leading() Leader { return leading{d} }

func notLeading() error {
	return errdefs.WithReason(errdefs.Unavailablef("this server does not lead; ask the leader"), propose.ReasonNotLeader)
}

// Report implements Leader.
func (l leading) Report(_ context.Context, r Report) (ReportAnswer, error) {
	if err := r.Validate(); err != nil {
		return ReportAnswer{}, err
	}
	now, rules := l.d.cfg.Now(), l.d.rules()
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.d.roll == nil {
		return ReportAnswer{}, notLeading()
	}
	l.d.roll.rules = rules
	return l.d.roll.report(r, now), nil
}

// Holder implements Leader.
func (l leading) Holder(_ context.Context, nodeID string) (string, error) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.d.roll == nil {
		return "", notLeading()
	}
	server := l.d.roll.holder(nodeID)
	if server == "" {
		return "", errdefs.NotFoundf("no server hears node %.80q", nodeID)
	}
	return server, nil
}

// Confirm implements Leader. The state contains the entry that began the term, so it
// contains all earlier writes.
func (l leading) Confirm(ctx context.Context) (model.ClusterPoint, error) {
	if err := l.d.cfg.Raft.VerifyLeader(ctx); err != nil {
		return model.ClusterPoint{}, err
	}
	l.d.mu.Lock()
	term := l.d.term
	l.d.mu.Unlock()
	view := l.d.cfg.Store.View()
	point := view.Cluster().At(view.Index())
	if point.TermID != term {
		return model.ClusterPoint{}, errdefs.Unavailablef("the term of this server has not begun, or is over; ask again")
	}
	return point, nil
}

// Away implements Leader.
func (l leading) Away(_ context.Context, server string, id rpc.Identity) error {
	if _, err := l.known(l.d.cfg.Store.View(), server, id); err != nil {
		return err
	}
	back := l.d.cfg.Now().Add(max(AwayTTL, l.d.lease()+l.d.cfg.Grace))
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.d.roll == nil {
		return notLeading()
	}
	l.d.roll.away(id.NodeID, back)
	return nil
}

// known returns the node that id authenticates, unless another agent acts as it at
// another server.
func (l leading) known(view *state.View, server string, id rpc.Identity) (*model.Node, error) {
	node, err := identify(view, id)
	if err != nil {
		return nil, err
	}
	return node, l.claim(server, heardAs(id))
}

// claim refuses an agent process while another server hears another one with the same
// identity.
func (l leading) claim(server string, who HeardNode) error {
	now := l.d.cfg.Now()
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.d.roll != nil && l.d.roll.twice(server, who, now) {
		return actsTwice(who.NodeID, "with server "+l.d.roll.holder(who.NodeID))
	}
	return nil
}

// touch notes that a node has written.
func (l leading) touch(who HeardNode) {
	now := l.d.cfg.Now()
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.d.roll != nil {
		l.d.roll.touch(who, now)
	}
}

// Ready implements Leader.
func (l leading) Ready(ctx context.Context, server string, id rpc.Identity) (uint64, error) {
	view := l.d.cfg.Store.View()
	node, err := l.known(view, server, id)
	if err != nil {
		return 0, err
	}
	index := view.Index()
	if node.Status != model.NodeStatusReady {
		cmd := l.d.statusCommand(view, node, model.NodeStatusReady, "Node reregistered by heartbeat", l.d.cfg.Now())
		if index, err = l.d.propose(ctx, cmd); err != nil {
			return 0, err
		}
	}
	l.touch(heardAs(id))
	return index, nil
}

func (d *Dispatcher) statusCommand(view *state.View, node *model.Node, status, message string, now time.Time) *fsm.UpdateNodeStatus {
	return &fsm.UpdateNodeStatus{
		NodeID:    node.ID,
		Status:    status,
		UpdatedAt: now.Unix(),
		Event:     &model.NodeEvent{Subsystem: "Cluster", Message: message, Timestamp: now.UTC()},
		Evals:     d.cfg.NodeEvals(view, node, now),
	}
}
