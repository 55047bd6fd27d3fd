// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// updateBatch bounds how many allocs one Command updates, unless one node sends
// more.
const updateBatch = 8192

// updateRequest is what one node reports.
type updateRequest struct {
	allocs []*model.Allocation
	done   chan updateResult // of size 1
}

type updateResult struct {
	index uint64
	err   error
}

// UpdateAllocs commits what a ready node reports.
func (d *Dispatcher) UpdateAllocs(ctx context.Context, id rpc.Identity, allocs []*model.Allocation) (uint64, error) {
	view := d.cfg.Store.View()
	node, err := d.known(view, id)
	if err != nil {
		return 0, err
	}
	if node.Status != model.NodeStatusReady {
		return 0, errdefs.FailedPreconditionf("node %q is %s: only a ready node may update its allocs; send a heartbeat first", id.NodeID, node.Status)
	}
	req := &updateRequest{allocs: d.own(view, id.NodeID, allocs), done: make(chan updateResult, 1)}
	if len(req.allocs) == 0 {
		return view.Index(), nil
	}
	select {
	case d.updates <- req:
	case <-ctx.Done():
		return 0, errdefs.DeadlineExceededf("the updates of node %q were not taken in time; send them again: %w", id.NodeID, ctx.Err())
	}
	select {
	case r := <-req.done:
		return r.index, r.err
	case <-ctx.Done():
		return 0, errdefs.DeadlineExceededf("the updates of node %q were not committed in time; send them again: %w", id.NodeID, ctx.Err())
	}
}

// own leaves out what is not an alloc of the node, and stamps the rest.
func (d *Dispatcher) own(view *state.View, nodeID string, allocs []*model.Allocation) []*model.Allocation {
	now := d.cfg.Now().UnixNano()
	out := make([]*model.Allocation, 0, len(allocs))
	for _, a := range allocs {
		if known := view.AllocByID(a.ID); known == nil || known.NodeID != nodeID {
			continue
		}
		if a.ModifyTime == 0 {
			a = a.Copy()
			a.ModifyTime = now
		}
		out = append(out, a)
	}
	return out
}

// commitUpdates makes one Command of everything that came while the one before
// it was being committed.
func (d *Dispatcher) commitUpdates(ctx context.Context) {
	for {
		var batch []*updateRequest
		select {
		case <-ctx.Done():
			return
		case req := <-d.updates:
			batch = d.gather(req)
		}
		index, err := d.commit(ctx, batch)
		for _, req := range batch {
			req.done <- updateResult{index: index, err: err}
		}
	}
}

// gather takes all requests that wait.
func (d *Dispatcher) gather(first *updateRequest) []*updateRequest {
	batch, allocs := []*updateRequest{first}, len(first.allocs)
	for allocs < updateBatch {
		select {
		case req := <-d.updates:
			batch = append(batch, req)
			allocs += len(req.allocs)
		default:
			return batch
		}
	}
	return batch
}

func (d *Dispatcher) commit(ctx context.Context, batch []*updateRequest) (uint64, error) {
	cmd := &fsm.UpdateAllocsFromClient{}
	for _, req := range batch {
		cmd.Allocs = append(cmd.Allocs, req.allocs...)
	}
	cmd.Evals = d.evalsFor(d.cfg.Store.View(), cmd.Allocs, d.cfg.Now())
	return d.propose(ctx, cmd)
}

// evalsFor asks the scheduler once to look at each job of which an alloc failed,
// came back, or serves for which another one is to go.
func (d *Dispatcher) evalsFor(view *state.View, updates []*model.Allocation, now time.Time) []*model.Evaluation {
	var evals []*model.Evaluation
	seen := map[model.JobKey]bool{}
	for _, u := range updates {
		old := view.AllocByID(u.ID)
		if old == nil || seen[old.JobKey()] {
			continue
		}
		trigger := triggerOf(view, old, u)
		if trigger == "" {
			continue
		}
		job := view.JobByID(old.Namespace, old.JobID)
		if job == nil || job.Stop && trigger != model.EvalTriggerReconnect {
			continue
		}
		seen[old.JobKey()] = true
		evals = append(evals, &model.Evaluation{
			ID: d.cfg.NewID(), Namespace: job.Namespace, Priority: job.Priority, Type: job.Type,
			TriggeredBy: trigger, JobID: job.ID, Status: model.EvalStatusPending,
			CreateTime: now.UnixNano(), ModifyTime: now.UnixNano(),
		})
	}
	return evals
}

// triggerOf says why the scheduler must act on an update, "" if it need not.
func triggerOf(view *state.View, old, u *model.Allocation) string {
	switch {
	case old.ClientStatus == model.AllocClientStatusUnknown && u.ClientStatus != model.AllocClientStatusUnknown:
		return model.EvalTriggerReconnect
	case u.ClientStatus == model.AllocClientStatusFailed && old.ClientStatus != u.ClientStatus && !old.ServerTerminalStatus():
		return model.EvalTriggerRetryFailedAlloc
	case hasRival(view, old) && beginsToServe(view, old, u):
		return model.EvalTriggerReconnect
	}
	return ""
}

// hasRival reports whether another alloc may hold the same place: one of the two
// was replaced while its node was out of reach, and which stays may depend on
// which of them runs.
func hasRival(view *state.View, a *model.Allocation) bool {
	if a.ServerTerminalStatus() {
		return false
	}
	for prev := view.AllocByID(a.PreviousAllocation); prev != nil; prev = view.AllocByID(prev.PreviousAllocation) {
		if !prev.TerminalStatus() {
			return true
		}
	}
	next := view.AllocByID(a.NextAllocation)
	return next != nil && !next.ServerTerminalStatus()
}

func beginsToServe(view *state.View, old, u *model.Allocation) bool {
	job := view.JobByVersion(old.Namespace, old.JobID, old.JobVersion)
	if job == nil {
		return false
	}
	tg := job.LookupTaskGroup(old.TaskGroup)
	if tg == nil {
		return false
	}
	c := *old
	if u.ClientStatus != "" {
		c.ClientStatus = u.ClientStatus
	}
	if u.TaskStates != nil {
		c.TaskStates = u.TaskStates
	}
	return c.Serves(tg) && !old.Serves(tg)
}
