// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocs

import (
	"context"
	"slices"
	"sync"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// fetchSize bounds how many allocs one call fetches.
const fetchSize = 256

// Fetch gets allocs, with their jobs, from the servers.
type Fetch func(ctx context.Context, ids []string) ([]*model.Allocation, error)

// Apply makes the node run what is assigned: it fetches what has changed, starts and
// updates runners, and stops what servers no longer have. An alloc that is merely missing
// from a full set is stopped only if the leader vouches for the set and the servers have
// everything that this node has seen; doubted means that they have not.
func (s *Set) Apply(ctx context.Context, x *rpc.Assignments, doubted bool, fetch Fetch) error {
	for chunk := range slices.Chunk(s.changedIn(x), fetchSize) {
		list, err := fetch(ctx, chunk)
		if err != nil {
			return err
		}
		together(list, s.run)
	}
	for chunk := range slices.Chunk(s.goneIn(x, doubted), fetchSize) {
		together(chunk, s.forget)
	}
	return nil
}

// together calls act for all items at the same time and waits until all calls have
// returned. Runners write to disk before they act: their writes share one sync of the disk,
// and none waits for another runner, which may be busy with a task that restarts.
func together[T any](items []T, act func(T)) {
	var work sync.WaitGroup
	for _, item := range items {
		work.Go(func() { act(item) })
	}
	work.Wait()
}

// ForgetKnown has all allocs fetched again with the next assignments.
func (s *Set) ForgetKnown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// Unassigned counts the running allocs that a full set lacks.
func (s *Set) Unassigned(x *rpc.Assignments) (n int) {
	assigned := assignedIn(x)
	for _, r := range s.Runners() {
		if !assigned[r.ID()] && !r.Ended() {
			n++
		}
	}
	return n
}

func assignedIn(x *rpc.Assignments) map[string]bool {
	out := make(map[string]bool, len(x.Set))
	for _, y := range x.Set {
		out[y.AllocID] = true
	}
	return out
}

func (s *Set) changedIn(x *rpc.Assignments) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, y := range x.Set {
		if known, ok := s.known[y.AllocID]; !ok || y.AllocModifyIndex > known {
			out = append(out, y.AllocID)
		}
	}
	return out
}

func (s *Set) goneIn(x *rpc.Assignments, doubted bool) []string {
	out := slices.Clone(x.Gone)
	if !x.Full || !x.Confirmed || doubted {
		return out
	}
	assigned := assignedIn(x)
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.known {
		if !assigned[id] && s.runners[id] == nil {
			out = append(out, id)
		}
	}
	for id := range s.runners {
		if !assigned[id] {
			out = append(out, id)
		}
	}
	return out
}

// forget ends an alloc that servers no longer have. What has ended is removed
// as garbage.
func (s *Set) forget(id string) {
	s.mu.Lock()
	r := s.runners[id]
	if r == nil {
		delete(s.known, id)
	}
	s.mu.Unlock()
	s.cfg.Updates.Forget(id)
	if r == nil {
		return
	}
	s.mu.Lock()
	s.orphans[id] = true
	s.mu.Unlock()
	if !r.Ended() {
		s.cfg.Logger.Info("alloc stopped: the servers no longer have it", "alloc_id", id)
		r.Stop()
	}
	s.cfg.Garbage()
}

// run brings a newer version of an alloc to its runner.
func (s *Set) run(x *model.Allocation) {
	s.mu.Lock()
	if known, ok := s.known[x.ID]; ok && x.AllocModifyIndex <= known {
		s.mu.Unlock()
		return
	}
	s.known[x.ID] = x.AllocModifyIndex
	r := s.runners[x.ID]
	s.mu.Unlock()
	unknown := x.ClientStatus == model.AllocClientStatusUnknown
	switch {
	case r != nil:
		r.Update(x)
		s.cfg.Limited() // its group may have another limit now
		if unknown {
			s.tell(r)
		}
	case x.ClientTerminalStatus():
		// It ended here earlier, and its runner has been removed since.
	case x.ServerTerminalStatus():
		s.cfg.Updates.Put(neverRan(x, model.AllocClientStatusComplete, "The allocation was stopped before it was started"), false)
	case unknown: // it ran here: starting it again would do its work twice
		s.cfg.Updates.Put(neverRan(x, model.AllocClientStatusFailed, "the node does not know the allocation any more: what its agent kept of it is gone"), true)
	default:
		s.begin(x)
	}
}

// tell reports the true state of an alloc to the servers at once.
func (s *Set) tell(r *alloc.Runner) {
	if v, ok := r.Report(); ok {
		s.cfg.Updates.Put(v, true)
	}
}

func (s *Set) begin(x *model.Allocation) {
	r, err := alloc.New(s.cfg.Run, x)
	if err != nil {
		s.cfg.Updates.Put(neverRan(x, model.AllocClientStatusFailed, err.Error()), false)
		return
	}
	if s.add(x.ID, r) && r.StopAfter() > 0 {
		s.cfg.Limited()
	}
}

// add starts a new runner, unless the agent is ending.
func (s *Set) add(id string, r *alloc.Runner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.runners[id] = r
	s.work.Go(r.Start) // its first write to disk joins the first writes of the others
	return true
}

// neverRan is the report on an alloc that has no runner.
func neverRan(x *model.Allocation, status, why string) *model.Allocation {
	return &model.Allocation{
		ID: x.ID, Namespace: x.Namespace, Name: x.Name, NodeID: x.NodeID, JobID: x.JobID, TaskGroup: x.TaskGroup,
		EvalID: x.EvalID, DeploymentID: x.DeploymentID, ClientStatus: status, ClientDescription: why,
	}
}
