// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"regexp"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// StopAlloc requests the stop and replacement of an alloc.
func (e *Endpoint) StopAlloc(ctx context.Context, allocID string, noShutdownDelay, reschedule bool) (*api.AllocStopResponse, error) {
	a := e.Store.View().AllocByID(allocID)
	if a == nil {
		return nil, errdefs.NotFoundf("alloc not found")
	}
	job := e.Store.View().JobOf(a)
	if job == nil {
		return nil, errdefs.NotFoundf("job %q of allocation %s not found", a.JobID, allocID)
	}
	yes := true
	t := a.DesiredTransition
	t.Migrate, t.NoShutdownDelay, t.Reschedule = &yes, &noShutdownDelay, &reschedule
	eval := e.newEval(job, model.EvalTriggerAllocStop)
	index, err := e.propose(ctx, &fsm.UpdateDesiredTransitions{Transitions: map[string]model.DesiredTransition{a.ID: t}, Evals: []*model.Evaluation{eval}})
	return &api.AllocStopResponse{EvalID: eval.ID, Index: index}, err
}

// DeleteEvals removes ended evals.
func (e *Endpoint) DeleteEvals(ctx context.Context, ids []string) (*api.EvalDeleteResponse, error) {
	view := e.Store.View()
	if !view.SchedulerConfig().PauseEvalBroker {
		return nil, errdefs.FailedPreconditionf("eval broker is enabled; eval broker must be paused to delete evals")
	}
	for _, id := range ids {
		if view.EvalByID(id) == nil {
			return nil, errdefs.NotFoundf("eval not found: %s", id)
		}
	}
	index, err := e.propose(ctx, &fsm.DeleteEvals{EvalIDs: ids})
	return &api.EvalDeleteResponse{Count: len(ids), Index: index}, err
}

// ForceGC removes all ended objects, regardless of their age.
func (e *Endpoint) ForceGC(ctx context.Context) error { return e.CollectGarbage(ctx) }

// ReconcileSummaries recounts the summaries. They are derived in the same transaction
// that changes the allocs, so this should change nothing.
func (e *Endpoint) ReconcileSummaries(ctx context.Context) error {
	_, err := e.propose(ctx, &fsm.RecountJobs{})
	return err
}

// nameRule matches valid names of namespaces and node pools.
var nameRule = regexp.MustCompile(`^[a-zA-Z0-9-]{1,128}$`)

// UpsertNamespace stores a namespace.
func (e *Endpoint) UpsertNamespace(ctx context.Context, ns *model.Namespace) (uint64, error) {
	if !nameRule.MatchString(ns.Name) {
		return 0, errdefs.FailedPreconditionf("Invalid namespace %q: 1 error occurred:\n\t* invalid name %q. Must match regex %s\n\n", ns.Name, ns.Name, nameRule)
	}
	if err := model.OperatorBounds.Check("namespace "+ns.Name+": ", ns); err != nil {
		return 0, err
	}
	if err := ns.Validate(); err != nil {
		return 0, errdefs.New(errdefs.FailedPrecondition, err)
	}
	return e.propose(ctx, &fsm.UpsertNamespaces{Namespaces: []*model.Namespace{ns}})
}

// DeleteNamespace removes a namespace without jobs that may run.
func (e *Endpoint) DeleteNamespace(ctx context.Context, name string) (uint64, error) {
	if name == model.DefaultNamespace {
		return 0, errdefs.FailedPreconditionf("can not delete default namespace")
	}
	return e.propose(ctx, &fsm.DeleteNamespaces{Names: []string{name}})
}

// UpsertNodePool stores a node pool.
func (e *Endpoint) UpsertNodePool(ctx context.Context, pool *model.NodePool) (uint64, error) {
	if !poolRule.MatchString(pool.Name) {
		return 0, errdefs.FailedPreconditionf("invalid node pool: 1 error occurred:\n\t* invalid name %q, must match regex %s\n\n", pool.Name, poolRule)
	}
	if pool.Name == model.NodePoolAll || pool.Name == model.NodePoolDefault {
		return 0, errdefs.FailedPreconditionf("modifying node pool %q is not allowed", pool.Name)
	}
	if err := model.OperatorBounds.Check("node pool "+pool.Name+": ", pool); err != nil {
		return 0, err
	}
	if err := pool.Validate(); err != nil {
		return 0, errdefs.New(errdefs.FailedPrecondition, err)
	}
	return e.propose(ctx, &fsm.UpsertNodePools{Pools: []*model.NodePool{pool}})
}

var poolRule = regexp.MustCompile(`^[a-zA-Z0-9-_]{1,128}$`)

// DeleteNodePool removes a node pool that is not in use.
func (e *Endpoint) DeleteNodePool(ctx context.Context, name string) (uint64, error) {
	if name == model.NodePoolAll || name == model.NodePoolDefault {
		return 0, errdefs.FailedPreconditionf("deleting node pool %q is not allowed", name)
	}
	return e.propose(ctx, &fsm.DeleteNodePools{Names: []string{name}})
}

// BeginWithScheduler sets the initial scheduler configuration of a cluster, unless it
// was set before; nil keeps the built-in one.
func (e *Endpoint) BeginWithScheduler(ctx context.Context, cfg *model.SchedulerConfiguration) error {
	now := e.Store.View().SchedulerConfig()
	if cfg == nil || now.ModifyIndex != state.FirstIndex {
		return nil
	}
	first := *cfg
	_, err := e.propose(ctx, &fsm.SetSchedulerConfig{Config: &first, CAS: true, ModifyIndex: now.ModifyIndex})
	if errdefs.IsConflict(err) {
		return nil // it was set concurrently
	}
	return err
}

// SetSchedulerConfig replaces the scheduler configuration. If cas is set, its
// ModifyIndex must match.
func (e *Endpoint) SetSchedulerConfig(ctx context.Context, cfg *model.SchedulerConfiguration, cas *uint64) (bool, uint64, error) {
	switch cfg.SchedulerAlgorithm {
	case "", model.SchedulerAlgorithmBinpack, model.SchedulerAlgorithmSpread:
	default:
		return false, 0, errdefs.InvalidArgumentf("invalid scheduler algorithm: %s", cfg.SchedulerAlgorithm)
	}
	if err := cfg.Validate(); err != nil {
		return false, 0, errdefs.New(errdefs.InvalidArgument, err)
	}
	cmd := &fsm.SetSchedulerConfig{Config: cfg}
	if cas != nil {
		cmd.CAS, cmd.ModifyIndex = true, *cas
	}
	index, err := e.propose(ctx, cmd)
	if cas != nil && errdefs.IsConflict(err) {
		return false, index, nil
	}
	return err == nil, index, err
}
