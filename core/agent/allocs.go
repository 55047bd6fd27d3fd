// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"slices"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// restore goes on with what an earlier agent on this data directory ran.
func (a *Agent) restore() error {
	records, err := a.store.Allocs()
	if err != nil {
		return err
	}
	for _, rec := range records {
		a.runCfg.Users.Hold(rec.Alloc.ID, rec.UID) // also of one that cannot be restored
	}
	for _, rec := range records {
		r, err := alloc.Restore(a.runCfg, rec)
		if err != nil {
			a.cfg.Logger.Error("an alloc of an earlier agent cannot be restored", "alloc_id", rec.Alloc.ID, "error", err)
			a.unrestored[rec.Alloc.ID] = true
			continue
		}
		a.allocs[rec.Alloc.ID] = r
		a.work.Go(r.Start)
	}
	return nil
}

func (a *Agent) runners() []*alloc.Runner {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]*alloc.Runner, 0, len(a.allocs))
	for _, r := range a.allocs {
		out = append(out, r)
	}
	return out
}

// apply makes the node run what is assigned: it fetches what has changed, starts
// and updates runners, and stops what servers no longer have. What is only
// missing from a full set is stopped if the leader vouches for the set and has
// everything that this node has seen.
func (a *Agent) apply(ctx context.Context, x *rpc.Assignments) error {
	for chunk := range slices.Chunk(a.changedIn(x), fetchSize) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		allocs, err := a.cfg.Servers.FetchAllocs(call, a.identity(), chunk)
		cancel()
		if err != nil {
			return err
		}
		for _, y := range allocs {
			a.run(y)
		}
	}
	for _, id := range a.goneIn(x) {
		a.forget(id)
	}
	return nil
}

// tell has the servers hear at once what is true of an alloc.
func (a *Agent) tell(r *alloc.Runner) {
	if v, ok := r.Report(); ok {
		a.updates.Put(v, true)
	}
}

// fetchSize bounds how many allocs one call fetches.
const fetchSize = 256

func (a *Agent) changedIn(x *rpc.Assignments) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, y := range x.Set {
		if known, ok := a.known[y.AllocID]; !ok || y.AllocModifyIndex > known {
			out = append(out, y.AllocID)
		}
	}
	return out
}

func (a *Agent) goneIn(x *rpc.Assignments) []string {
	out := slices.Clone(x.Gone)
	if !x.Full || !x.Confirmed || a.cluster.doubts() {
		return out
	}
	assigned := make(map[string]bool, len(x.Set))
	for _, y := range x.Set {
		assigned[y.AllocID] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.known {
		if !assigned[id] && a.allocs[id] == nil {
			out = append(out, id)
		}
	}
	for id := range a.allocs {
		if !assigned[id] {
			out = append(out, id)
		}
	}
	return out
}

// forget ends an alloc that servers no longer have. What has ended is removed
// as garbage.
func (a *Agent) forget(id string) {
	a.mu.Lock()
	r := a.allocs[id]
	delete(a.waiting, id)
	if r == nil {
		delete(a.known, id)
	}
	a.mu.Unlock()
	a.updates.Forget(id)
	if r == nil {
		return
	}
	a.mu.Lock()
	a.orphans[id] = true
	a.mu.Unlock()
	if !r.Ended() {
		a.cfg.Logger.Info("alloc stopped: the servers no longer have it", "alloc_id", id)
		r.Stop()
	}
	a.garbage()
}

// run brings a newer version of an alloc to its runner.
func (a *Agent) run(x *model.Allocation) {
	a.mu.Lock()
	if known, ok := a.known[x.ID]; ok && x.AllocModifyIndex <= known {
		a.mu.Unlock()
		return
	}
	a.known[x.ID] = x.AllocModifyIndex
	r := a.allocs[x.ID]
	delete(a.waiting, x.ID)
	a.mu.Unlock()
	unknown := x.ClientStatus == model.AllocClientStatusUnknown
	switch {
	case r != nil:
		r.Update(x)
		a.contact.lookAgain() // its group may say something else now
		if unknown {
			a.tell(r)
		}
	case x.ClientTerminalStatus():
		// It has ended here before and was collected since.
	case x.ServerTerminalStatus():
		a.updates.Put(neverRan(x, model.AllocClientStatusComplete, "The allocation was stopped before it was started"), false)
	case unknown: // it ran here: to start it anew would do its work twice
		a.updates.Put(neverRan(x, model.AllocClientStatusFailed, "the node does not know the allocation any more: what its agent kept of it is gone"), true)
	case a.waits(x):
	default:
		a.begin(x)
	}
}

// waits keeps an alloc back while the one that it replaces still runs here: the
// scheduler gave it the same ports and room. The wait ends with the
// predecessor, whose own kill timeout bounds it.
func (a *Agent) waits(x *model.Allocation) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.allocs[x.PreviousAllocation]
	if before == nil || before.Ended() {
		return false
	}
	a.waiting[x.ID] = x
	return true
}

// ended lets the successors of an alloc start.
func (a *Agent) ended(allocID string) {
	a.garbage()
	a.mu.Lock()
	var next []*model.Allocation
	for id, x := range a.waiting {
		if x.PreviousAllocation == allocID {
			next = append(next, x)
			delete(a.waiting, id)
		}
	}
	a.mu.Unlock()
	for _, x := range next {
		a.begin(x)
	}
}

func (a *Agent) begin(x *model.Allocation) {
	r, err := alloc.New(a.runCfg, x)
	if err != nil {
		a.updates.Put(neverRan(x, model.AllocClientStatusFailed, err.Error()), false)
		return
	}
	a.mu.Lock()
	ending := a.ending
	if !ending {
		a.allocs[x.ID] = r
	}
	a.mu.Unlock()
	if ending {
		return
	}
	if stopAfter(x.Job.LookupTaskGroup(x.TaskGroup)) > 0 {
		a.contact.lookAgain()
	}
	a.work.Go(r.Start) // its first write to disk joins those of the others
}

// neverRan is the report on an alloc that has no runner.
func neverRan(x *model.Allocation, status, why string) *model.Allocation {
	return &model.Allocation{
		ID: x.ID, Namespace: x.Namespace, Name: x.Name, NodeID: x.NodeID, JobID: x.JobID, TaskGroup: x.TaskGroup,
		EvalID: x.EvalID, DeploymentID: x.DeploymentID, ClientStatus: status, ClientDescription: why,
	}
}

// CollectAlloc removes one ended alloc. It waits a moment for servers to know of
// the end: without the alloc nobody could tell them.
func (a *Agent) CollectAlloc(ctx context.Context, allocID string) error {
	r, err := a.runner(allocID)
	if err != nil {
		return err
	}
	for end := time.Now().Add(ackTimeout); r.Ended() && !a.isOrphan(allocID) && !a.updates.EndAcknowledged(allocID); {
		if ctx.Err() != nil || time.Now().After(end) {
			return errdefs.FailedPreconditionf("alloc %s has ended and the servers do not know it yet; try again when the node has a session", allocID)
		}
		a.sleep(ctx, 10*time.Millisecond)
	}
	return a.remove(ctx, r)
}

// ackTimeout bounds the wait for servers to know of an alloc's end.
const ackTimeout = 5 * time.Second

func (a *Agent) runner(allocID string) (*alloc.Runner, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.allocs[allocID]; r != nil {
		return r, nil
	}
	return nil, errdefs.NotFoundf("Unknown allocation %q", allocID)
}
