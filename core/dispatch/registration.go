// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/nodeevals"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Register implements Leader.
func (l leading) Register(ctx context.Context, server string, node *model.Node) (Registered, error) {
	if node == nil {
		return Registered{}, errdefs.InvalidArgumentf("the registration is empty; send the node")
	}
	return l.register(ctx, l.d.cfg.Store.View(), server, node)
}

// Change implements Leader. The change applies to the registration in the state, so a new
// or restarted leader can handle it. If the state has another registration (an answer was
// lost, a snapshot was restored), the node sends everything.
func (l leading) Change(ctx context.Context, server string, change *model.NodeChange) (Registered, error) {
	if err := change.Validate(); err != nil {
		return Registered{}, err
	}
	view := l.d.cfg.Store.View()
	before := view.NodeByID(change.Node.ID)
	if before == nil {
		return Registered{}, sendAll(change.Node.ID)
	}
	if !sameSecret(before.SecretID, change.Node.SecretID) {
		return Registered{}, wrongSecret(before.ID)
	}
	if v, err := versionOf(before, view.Level()); err != nil || v != change.Base {
		return Registered{}, sendAll(before.ID)
	}
	return l.register(ctx, view, server, change.Apply(before))
}

func sendAll(nodeID string) error {
	return errdefs.Abortedf("the servers have another registration of node %q than the one that it changes; send all of it", nodeID)
}

// register stores a registration. It writes nothing if nothing has changed, so that
// returning nodes cost no log entries.
func (l leading) register(ctx context.Context, view *state.View, server string, node *model.Node) (Registered, error) {
	d := l.d
	stored := node.Copy()
	stored.Drivers, stored.Events = namedDrivers(node.Drivers), reported(node.Events)
	if err := stored.ValidateRegistration(); err != nil {
		return Registered{}, err
	}
	if node.Region != "" && d.cfg.Region != "" && node.Region != d.cfg.Region {
		return Registered{}, errdefs.InvalidArgumentf("this server is of region %q and the node of region %q; set the region, or the servers, in the node's configuration", d.cfg.Region, node.Region)
	}
	if err := sameCluster(view, node.ClusterID); err != nil {
		return Registered{}, err
	}
	before := view.NodeByID(node.ID)
	if before != nil && !sameSecret(before.SecretID, node.SecretID) {
		return Registered{}, wrongSecret(node.ID)
	}
	who := HeardNode{NodeID: node.ID, Instance: node.Instance, Session: node.Session}
	if err := l.claim(server, who); err != nil {
		return Registered{}, err
	}
	if err := l.newest(who, node.Number); err != nil {
		return Registered{}, err
	}
	now := d.cfg.Now()
	if before == nil && d.cfg.Tokens != nil {
		if err := d.cfg.Tokens.Admit(view, node, now); err != nil {
			return Registered{}, err
		}
	}
	stored.Region, stored.Instance, stored.Session, stored.Number, stored.ClusterID, stored.Token = "", "", 0, 0, "", ""
	stored.Status, stored.StatusUpdatedAt = model.NodeStatusReady, now.Unix()
	level := view.Level()
	if level < 2 { // servers that cannot store them take part; the node is stored with them when it registers next
		stored = stored.AtLevel1()
	}
	stored.ComputedClass = stored.ComputeClass()
	version, err := versionOf(stored, level)
	if err != nil {
		return Registered{}, err
	}
	if same, err := registered(before, stored); err != nil {
		return Registered{}, err
	} else if same {
		l.touch(who)
		return Registered{view.Index(), version}, nil
	}
	var evals []*model.Evaluation
	if nodeevals.Needed(before, stored) {
		evals = d.cfg.NodeEvals(view, stored, now)
	}
	index, err := d.joins.write(ctx, d, stored, evals)
	if err == nil {
		l.touch(who)
	}
	return Registered{index, version}, err
}

// newest refuses a registration that arrives after a newer one of the same agent process.
// The sender gave the older one up when it sent the newer one.
func (l leading) newest(who HeardNode, number uint64) error {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.d.roll != nil && !l.d.roll.newest(who, number) {
		return errdefs.Abortedf("a newer registration of node %q has arrived before this one; this one is dropped", who.NodeID)
	}
	return nil
}

// registered reports whether the state has a node as it registers now.
func registered(before, now *model.Node) (bool, error) {
	if before == nil || before.Status != now.Status || len(now.Events) > 0 {
		return false, nil
	}
	a, err := contentOf(before)
	if err != nil {
		return false, err
	}
	b, err := contentOf(now)
	return bytes.Equal(a, b), err
}

// contentOf encodes the stored part of a registration. Equal registrations have equal
// bytes.
func contentOf(n *model.Node) ([]byte, error) {
	return fsm.NewCodec().Append(nil, n.Registration())
}

// versionOf returns a hash of the stored content of a registration. It depends on the
// capability level, because a higher level stores more of the same registration.
func versionOf(n *model.Node, level int) (uint64, error) {
	content, err := contentOf(n)
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256(append(content, byte(level)))
	return binary.BigEndian.Uint64(sum[:]), nil
}
