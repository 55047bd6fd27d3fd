// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/nodeevals"
	"github.com/drover-project/drover/sdk/errdefs"
)

func (e *Endpoint) node(id string) (*model.Node, error) {
	n := e.Store.View().NodeByID(id)
	if n == nil {
		return nil, errdefs.NotFoundf("node not found")
	}
	return n, nil
}

// nodeEvals returns the evaluations that a change of a node requires.
func (e *Endpoint) nodeEvals(n *model.Node) []*model.Evaluation {
	return nodeevals.Of(e.Store.View(), n, e.Now(), newID)
}

func evalIDs(evals []*model.Evaluation) []string {
	var ids []string
	for _, ev := range evals {
		ids = append(ids, ev.ID)
	}
	return ids
}

func (e *Endpoint) event(subsystem, message string) *model.NodeEvent {
	return &model.NodeEvent{Subsystem: subsystem, Message: message, Timestamp: e.Now().UTC()}
}

// SetNodeEligibility sets whether new allocs may be placed on a node.
func (e *Endpoint) SetNodeEligibility(ctx context.Context, req *api.NodeEligibilityRequest) (*api.NodeEligibilityResponse, error) {
	n, err := e.node(req.NodeID)
	if err != nil {
		return nil, err
	}
	if req.Eligibility != model.NodeSchedulingEligible && req.Eligibility != model.NodeSchedulingIneligible {
		return nil, errdefs.InvalidArgumentf("invalid scheduling eligibility %q", req.Eligibility)
	}
	if n.DrainStrategy != nil && req.Eligibility == model.NodeSchedulingEligible {
		return nil, errdefs.FailedPreconditionf("can not set node's scheduling eligibility to eligible while it is draining")
	}
	cmd := &fsm.UpdateNodeEligibility{NodeID: n.ID, Eligibility: req.Eligibility, UpdatedAt: e.Now().Unix(), Event: e.event("Cluster", "Node marked as "+markedAs(req.Eligibility))}
	if n.SchedulingEligibility != req.Eligibility && req.Eligibility == model.NodeSchedulingEligible {
		cmd.Evals = e.nodeEvals(n)
	}
	index, err := e.propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return nodeAnswer(index, cmd.Evals), nil
}

func nodeAnswer(index uint64, evals []*model.Evaluation) *api.NodeEligibilityResponse {
	out := &api.NodeEligibilityResponse{Index: index, EvalIDs: evalIDs(evals)}
	if len(evals) > 0 {
		out.EvalCreateIndex = index
	}
	return out
}

func markedAs(eligibility string) string {
	if eligibility == model.NodeSchedulingEligible {
		return "eligible for scheduling"
	}
	return "ineligible for scheduling"
}

// DrainNode starts a drain, or ends it.
func (e *Endpoint) DrainNode(ctx context.Context, req *api.NodeDrainRequest) (*api.NodeDrainResponse, error) {
	n, err := e.node(req.NodeID)
	if err != nil {
		return nil, err
	}
	now := e.Now().UTC()
	cmd := &fsm.UpdateNodeDrain{NodeID: n.ID, MarkEligible: req.MarkEligible, UpdatedAt: now.Unix()}
	message := "Node drain complete"
	if req.DrainSpec != nil {
		message = "Node drain strategy set"
		cmd.Strategy = &model.DrainStrategy{Deadline: req.DrainSpec.Deadline, IgnoreSystemJobs: req.DrainSpec.IgnoreSystemJobs, StartedAt: now}
		if req.DrainSpec.Deadline > 0 {
			cmd.Strategy.ForceDeadline = now.Add(req.DrainSpec.Deadline)
		}
	}
	if err := model.OperatorBounds.Check("the drain of node "+n.ID+": ", &model.DrainMetadata{Meta: req.Meta}); err != nil {
		return nil, err
	}
	cmd.LastDrain = lastDrain(n, req, now)
	cmd.Event = e.event("Drain", message)
	// The drain controller (core/control/drain) creates the evals for allocs that must
	// leave; only a node that becomes eligible again needs evals from here.
	if req.DrainSpec == nil && req.MarkEligible {
		cmd.Evals = e.nodeEvals(n)
	}
	index, err := e.propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	out := nodeAnswer(index, cmd.Evals)
	out.NodeModifyIndex = index
	return out, nil
}

// lastDrain is what the node keeps of its drain. A change of a drain under way keeps when it
// started and, unless the request has a message of its own, why. It is nil, which keeps what
// is known, if there is no drain to end.
func lastDrain(n *model.Node, req *api.NodeDrainRequest, now time.Time) *model.DrainMetadata {
	if n.DrainStrategy == nil && req.DrainSpec == nil {
		return nil
	}
	at := now.Truncate(time.Second)
	out := model.DrainMetadata{StartedAt: at}
	if n.DrainStrategy != nil && n.LastDrain != nil {
		out = *n.LastDrain
	}
	out.UpdatedAt, out.Status = at, "draining"
	if req.DrainSpec == nil {
		out.Status = "canceled"
	}
	if len(req.Meta) > 0 || out.Meta == nil {
		out.Meta = req.Meta
	}
	return &out
}

// PurgeNode removes a node; its allocs are replaced.
func (e *Endpoint) PurgeNode(ctx context.Context, nodeID string) (*api.NodeUpdateResponse, error) {
	n, err := e.node(nodeID)
	if err != nil {
		return nil, err
	}
	evals := e.nodeEvals(n)
	index, err := e.propose(ctx, &fsm.DeregisterNodes{IDs: []string{n.ID}, Evals: evals})
	return e.nodeUpdate(n, index, evals), err
}

// EvaluateNode creates evaluations for every job of a node.
func (e *Endpoint) EvaluateNode(ctx context.Context, nodeID string) (*api.NodeUpdateResponse, error) {
	n, err := e.node(nodeID)
	if err != nil {
		return nil, err
	}
	evals := e.nodeEvals(n)
	if len(evals) == 0 {
		return e.nodeUpdate(n, e.Store.View().Index(), nil), nil
	}
	index, err := e.propose(ctx, &fsm.UpsertEvals{Evals: evals})
	return e.nodeUpdate(n, index, evals), err
}

// nodeUpdate returns the answer with the evals and the list of servers.
func (e *Endpoint) nodeUpdate(n *model.Node, index uint64, evals []*model.Evaluation) *api.NodeUpdateResponse {
	out := &api.NodeUpdateResponse{
		EvalIDs: evalIDs(evals), LeaderRPCAddr: e.Address, SchedulingEligibility: n.SchedulingEligibility,
		Servers: []*api.NodeServerInfo{{RPCAdvertiseAddr: e.Address, Datacenter: e.Datacenter}},
	}
	for range e.Store.View().Nodes() {
		out.NumNodes++
	}
	if len(evals) > 0 {
		out.EvalCreateIndex = index
	}
	out.Index = index
	return out
}
