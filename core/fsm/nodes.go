// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// RegisterNode stores a node's registration.
type RegisterNode struct{ Node *model.Node }

func (*RegisterNode) kind() byte { return kindRegisterNode }

// needs returns the capability level from which servers can read the command: 2 if single
// devices of the node have attributes or NUMA nodes.
func (c *RegisterNode) needs() int {
	if c.Node.BeyondLevel1() {
		return 2
	}
	return 1
}

func (c *RegisterNode) apply(tx *state.Tx) error {
	if c.Node == nil || c.Node.ID == "" {
		return errdefs.InvalidArgumentf("a node registration without a node id")
	}
	tx.RegisterNode(c.Node)
	return nil
}

// DeregisterNodes removes nodes. It skips missing nodes, and with OnlyDown nodes that
// are no longer down.
type DeregisterNodes struct {
	IDs      []string
	Evals    []*model.Evaluation
	OnlyDown bool
}

func (*DeregisterNodes) kind() byte { return kindDeregisterNodes }

func (c *DeregisterNodes) apply(tx *state.Tx) error {
	for _, id := range c.IDs {
		n := tx.View().NodeByID(id)
		if c.OnlyDown && n != nil && !n.TerminalStatus() {
			continue
		}
		if c.OnlyDown && n != nil && n.GCVolumesOnNodeGC { // its operator says that it never comes back then
			for _, v := range tx.View().HostVolumesByNode(id) {
				if err := tx.DeleteHostVolume(v.ID); err != nil {
					return err
				}
			}
		}
		if err := tx.DeleteNode(id); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	upsertEvals(tx, c.Evals)
	return nil
}

// UpdateNodeStatus changes the status of a node.
type UpdateNodeStatus struct {
	NodeID    string
	Status    string
	UpdatedAt int64 // Unix seconds
	Event     *model.NodeEvent
	Evals     []*model.Evaluation
}

func (*UpdateNodeStatus) kind() byte { return kindUpdateNodeStatus }

func (c *UpdateNodeStatus) apply(tx *state.Tx) error {
	if err := tx.UpdateNodeStatus(c.NodeID, c.Status, c.UpdatedAt, c.Event); err != nil {
		return err
	}
	upsertEvals(tx, c.Evals)
	return nil
}

// UpdateNodeDrain starts a drain (Strategy set) or ends one.
type UpdateNodeDrain struct {
	NodeID       string
	Strategy     *model.DrainStrategy
	MarkEligible bool
	LastDrain    *model.DrainMetadata
	UpdatedAt    int64 // Unix seconds
	Event        *model.NodeEvent
	Evals        []*model.Evaluation
}

func (*UpdateNodeDrain) kind() byte { return kindUpdateNodeDrain }

func (c *UpdateNodeDrain) apply(tx *state.Tx) error {
	if err := tx.UpdateNodeDrain(c.NodeID, c.Strategy, c.MarkEligible, c.LastDrain, c.UpdatedAt, c.Event); err != nil {
		return err
	}
	upsertEvals(tx, c.Evals)
	return nil
}

// UpdateNodeEligibility sets whether new allocs may be placed on a node.
type UpdateNodeEligibility struct {
	NodeID      string
	Eligibility string
	UpdatedAt   int64 // Unix seconds
	Event       *model.NodeEvent
	Evals       []*model.Evaluation
}

func (*UpdateNodeEligibility) kind() byte { return kindUpdateNodeEligibility }

func (c *UpdateNodeEligibility) apply(tx *state.Tx) error {
	if err := tx.UpdateNodeEligibility(c.NodeID, c.Eligibility, c.UpdatedAt, c.Event); err != nil {
		return err
	}
	upsertEvals(tx, c.Evals)
	return nil
}

// UpsertNodeEvents appends events to nodes, by node; missing nodes are skipped. Nothing
// proposes it any more: events come with registrations and changes of nodes. Servers still
// read it, because a released command never changes.
type UpsertNodeEvents struct{ Events map[string][]*model.NodeEvent }

func (*UpsertNodeEvents) kind() byte { return kindUpsertNodeEvents }

func (c *UpsertNodeEvents) apply(tx *state.Tx) error {
	for _, id := range slices.Sorted(maps.Keys(c.Events)) {
		if err := tx.AddNodeEvents(id, c.Events[id]); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	return nil
}
