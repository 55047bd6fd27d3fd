// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package allocs is the set of a node's allocs: it makes the node run what servers have
// assigned to it and end what they no longer have. core/agent/alloc runs each of them.
// It does not talk to servers and removes nothing from disk. Only core/agent and
// packages below it may import it.
package allocs

import (
	"context"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Updates is where reports on allocs go that have no runner.
type Updates interface {
	Put(a *model.Allocation, urgent bool)
	Forget(allocID string)
}

// Config is what a set needs.
type Config struct {
	Run     *alloc.Config
	Updates Updates
	// Limited is called when an alloc comes or changes whose group limits how long it
	// runs without servers. Garbage is called when an alloc has ended, so that there
	// may be something to collect. Neither may block.
	Limited func()
	Garbage func()
	// Parallel limits the tasks that StopAll kills at the same time.
	Parallel int
	Logger   hclog.Logger
}

// Set holds the allocs of a node.
type Set struct {
	cfg  Config
	work sync.WaitGroup // starts of runners

	mu      sync.Mutex
	runners map[string]*alloc.Runner
	known   map[string]uint64 // by alloc: the AllocModifyIndex that was acted on
	// unrestored are allocs of an earlier agent process that this one cannot run.
	unrestored map[string]bool
	ending     bool // no alloc begins any more
	// orphans are allocs that servers have removed and that still run here.
	orphans map[string]bool
}

// New returns a set without allocs.
func New(cfg Config) *Set {
	return &Set{
		cfg: cfg, runners: map[string]*alloc.Runner{}, known: map[string]uint64{}, unrestored: map[string]bool{}, orphans: map[string]bool{},
	}
}

// Restore continues the allocs that an earlier agent ran with this data directory.
func (s *Set) Restore(records []*alloc.Record) {
	for _, rec := range records {
		s.cfg.Run.Users.Hold(rec.Alloc.ID, rec.UID) // also of one that cannot be restored
	}
	for _, rec := range records {
		r, err := alloc.Restore(s.cfg.Run, rec)
		if err != nil {
			s.cfg.Logger.Error("an alloc of an earlier agent cannot be restored", "alloc_id", rec.Alloc.ID, "error", err)
			s.unrestored[rec.Alloc.ID] = true
			continue
		}
		s.runners[rec.Alloc.ID] = r
	}
	for _, r := range s.runners { // when all are there: one may wait for another
		s.work.Go(r.Start)
	}
}

// Previous returns a channel that is closed once an alloc has ended on this node, or nil
// if the node does not have it.
func (s *Set) Previous(allocID string) <-chan struct{} {
	r, err := s.Runner(allocID)
	if err != nil {
		return nil
	}
	return r.Over()
}

// Runners returns the runners of all allocs, in no order.
func (s *Set) Runners() []*alloc.Runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*alloc.Runner, 0, len(s.runners))
	for _, r := range s.runners {
		out = append(out, r)
	}
	return out
}

// ShareCores moves the running tasks without cores to the cores that no task has reserved now.
func (s *Set) ShareCores() {
	for _, r := range s.Runners() {
		r.ShareCores()
	}
}

// Runner returns the runner of an alloc; it is NotFound if the node does not have it.
func (s *Set) Runner(allocID string) (*alloc.Runner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runners[allocID]; r != nil {
		return r, nil
	}
	return nil, errdefs.NotFoundf("Unknown allocation %q: the node does not have it, since it has not begun there yet, or has ended and was collected to make room (client { gc_max_allocs })", allocID)
}

// Orphan reports whether servers have removed an alloc.
func (s *Set) Orphan(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orphans[id]
}

// Remove removes an ended alloc from the node.
func (s *Set) Remove(ctx context.Context, r *alloc.Runner) error {
	if err := r.Destroy(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runners, r.ID())
	if s.orphans[r.ID()] {
		delete(s.orphans, r.ID())
		delete(s.known, r.ID())
	}
	return nil
}

// Owned reports whether a task of a driver belongs, or may belong, to an alloc: an alloc
// that could not be restored owns all of its tasks, and a task whose id does not have our
// form belongs to somebody else.
func (s *Set) Owned(taskID string) bool {
	allocID, name, run, ok := alloc.ParseTaskID(taskID)
	if !ok {
		return true
	}
	s.mu.Lock()
	r, unrestored := s.runners[allocID], s.unrestored[allocID]
	s.mu.Unlock()
	return unrestored || r != nil && r.Owns(name, run)
}

// OwnsNetwork reports whether an alloc has, or may have, a network. An alloc that could not
// be restored may have one.
func (s *Set) OwnsNetwork(allocID string) bool {
	s.mu.Lock()
	r, unrestored := s.runners[allocID], s.unrestored[allocID]
	s.mu.Unlock()
	return unrestored || r != nil && r.UsesNetwork()
}

// UsesVolumes reports whether an alloc has, or may have, volumes of storage plugins. An alloc
// that could not be restored may have some.
func (s *Set) UsesVolumes(allocID string) bool {
	s.mu.Lock()
	r, unrestored := s.runners[allocID], s.unrestored[allocID]
	s.mu.Unlock()
	return unrestored || r != nil && r.UsesVolumes()
}

// Lives reports whether an alloc has not ended on this node, or may not have.
func (s *Set) Lives(allocID string) bool {
	s.mu.Lock()
	r, unrestored := s.runners[allocID], s.unrestored[allocID]
	s.mu.Unlock()
	return unrestored || r != nil && !r.Ended()
}

// UsesDevices reports whether a task uses, or may use, its devices. A task of an alloc that
// could not be restored may use them.
func (s *Set) UsesDevices(allocID, task string) bool {
	s.mu.Lock()
	r, unrestored := s.runners[allocID], s.unrestored[allocID]
	s.mu.Unlock()
	return unrestored || r != nil && r.UsesDevices(task)
}

// NoteTask adds an event to a task, if its alloc is on the node.
func (s *Set) NoteTask(allocID, task string, ev model.TaskEvent) {
	if r, err := s.Runner(allocID); err == nil {
		r.NoteTask(task, ev)
	}
}

// Close releases the allocs. Their tasks keep running, and no other alloc begins.
func (s *Set) Close() {
	s.end()
	for _, r := range s.Runners() {
		r.Close()
	}
	s.work.Wait()
}

// OwnsCgroup reports whether a cgroup of this agent belongs to a task of an alloc, or may
// belong to one. It makes the alloc remove a cgroup that its task no longer uses.
func (s *Set) OwnsCgroup(allocID, task string) bool {
	s.mu.Lock()
	r, unrestored := s.runners[allocID], s.unrestored[allocID]
	s.mu.Unlock()
	if r != nil {
		r.TidyCgroup(task)
	}
	return unrestored || r != nil
}
