// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// session is an attached node. It has a goroutine only while there is something to push:
// most sessions of a large cluster are idle.
type session struct {
	node rpc.Node
	end  func(error) // ends the session with a cause
	push func()      // pushes until next has nothing more

	// Used only by push: the index of the last full push, whether a leader confirmed
	// it and it includes all that the node has seen, and its position in the history.
	sent    uint64
	vouched bool
	seen    model.ClusterPoint

	doubtful atomic.Bool // the last push was not vouched for

	pushes sync.WaitGroup // whether push runs
	mu     sync.Mutex
	busy   bool // push runs
	over   bool // push does not run any more
	full   bool // the next push is a full set
	ask    bool // the next push tells the node to request its plugins
	index  uint64
	set    map[string]rpc.Assignment // by alloc id: changes since the last push
	gone   []string
}

// signal has push run. The lock must be held.
func (s *session) signal() {
	if s.busy || s.over {
		return
	}
	s.busy = true
	s.pushes.Go(s.push)
}

// start begins with a full push.
func (s *session) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal()
}

// stop waits until nothing is pushed any more.
func (s *session) stop() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.pushes.Wait()
}

// more reports whether push must go on.
func (s *session) more() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = !s.over && (s.full || s.ask || len(s.set) > 0 || len(s.gone) > 0)
	return s.busy
}

// resync makes the next push a full one.
func (s *session) resync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.ask, s.set, s.gone = true, false, nil, nil
	s.signal()
}

// note adds a change to the next push.
func (s *session) note(index uint64, old, now *model.Allocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return
	}
	s.index = index
	if now == nil {
		delete(s.set, old.ID)
		s.gone = append(s.gone, old.ID)
	} else {
		if s.set == nil {
			s.set = map[string]rpc.Assignment{}
		}
		s.set[now.ID] = assignment(now)
	}
	s.signal()
}

// take returns the assignments to push, or nil. full means that the caller must build a
// full set.
func (s *session) take() (delta *rpc.Assignments, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		s.full = false
		return nil, true
	}
	if len(s.set) == 0 && len(s.gone) == 0 && !s.ask {
		return nil, false
	}
	delta = &rpc.Assignments{Index: max(s.index, s.sent), Gone: s.gone, Plugins: s.ask, Set: make([]rpc.Assignment, 0, len(s.set))}
	for _, a := range s.set {
		// The feed lags behind the store: a change may already have been part of the
		// full push.
		if a.AllocModifyIndex > s.sent {
			delta.Set = append(delta.Set, a)
		}
	}
	s.set, s.gone, s.ask = nil, nil, false
	if len(delta.Set) == 0 && len(delta.Gone) == 0 && !delta.Plugins {
		return nil, false
	}
	return delta, false
}

func assignment(a *model.Allocation) rpc.Assignment {
	return rpc.Assignment{AllocID: a.ID, AllocModifyIndex: a.AllocModifyIndex, DesiredStatus: a.DesiredStatus, Reported: a.ReportDigest()}
}

// Attach implements rpc.Servers.
func (d *Dispatcher) Attach(ctx context.Context, id rpc.Identity, node rpc.Node, push func(*rpc.Assignments) error) error {
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	end, err := d.Hold(ctx, id, node, push, lose)
	if err != nil {
		return err
	}
	<-ctx.Done()
	end()
	return context.Cause(ctx)
}

// Hold implements rpc.Sessions.
func (d *Dispatcher) Hold(ctx context.Context, id rpc.Identity, node rpc.Node, push func(*rpc.Assignments) error, lose func(error)) (end func(), err error) {
	if _, err := d.known(d.cfg.Store.View(), id); err != nil {
		return nil, err
	}
	if err := d.admit(id.NodeID, d.cfg.Now()); err != nil {
		return nil, err
	}
	s := &session{node: node, seen: id.Seen, end: lose, full: true}
	s.push = func() {
		if err := d.pushAll(ctx, id.NodeID, s, push); err != nil {
			lose(err)
		}
	}
	d.enter(id, s)
	s.start()
	return func() {
		d.leave(id, s)
		s.stop()
	}, nil
}

// pushAll pushes what a session is to learn until there is nothing more. After an error
// nothing is pushed any more.
func (d *Dispatcher) pushAll(ctx context.Context, nodeID string, s *session, push func(*rpc.Assignments) error) (err error) {
	defer panics.Handle(func(p *panics.Panic) {
		d.logger.Error("assignments could not be pushed to a node; this is a defect of drover", p.Fields("node_id", nodeID)...)
		err = errdefs.Internalf("the session of node %q panicked; see the server's log", nodeID)
	})
	for {
		delta, full := s.take()
		if full {
			delta = d.everything(ctx, nodeID, s.seen)
			s.sent = delta.Index
		}
		if delta != nil {
			view := d.cfg.Store.View()
			s.place(delta, view)
			if !full {
				delta.Fresh = freshOf(view, nodeID, delta)
			}
			if err := push(delta); err != nil {
				return err
			}
		}
		if !s.more() {
			return nil
		}
	}
}

// maxFresh is how many allocs a push takes along.
const maxFresh = 64

// freshOf returns the allocs, with their jobs, that a push of changes tells a node of for the
// first time. A node fetches what it lacks, so that an alloc may be left out.
func freshOf(view *state.View, nodeID string, x *rpc.Assignments) []*model.Allocation {
	var out []*model.Allocation
	for _, y := range x.Set {
		if len(out) == maxFresh {
			break
		}
		a := view.AllocByID(y.AllocID)
		if a != nil && a.NodeID == nodeID && a.CreateIndex == a.AllocModifyIndex && a.DesiredStatus == model.AllocDesiredStatusRun {
			out = append(out, view.AllocWithJob(a))
		}
	}
	return out
}

// enter makes a session the current one of its node. The leader is told of it even if it knows
// of a newer session, because it may have given the node up since.
func (d *Dispatcher) enter(id rpc.Identity, s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.sessions[id.NodeID]; old != nil {
		old.end(errdefs.Abortedf("another session of node %q took the place of this one", id.NodeID))
	}
	d.sessions[id.NodeID] = s
	if d.hearing.nodes[id.NodeID] != nil { // if not, Beat forwards the node's next heartbeat to the leader
		d.hearing.heard(heardAs(id), d.cfg.Now())
		d.hearing.tell(id.NodeID)
		d.hurry()
	}
}

func (d *Dispatcher) leave(id rpc.Identity, s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sessions[id.NodeID] == s {
		delete(d.sessions, id.NodeID)
		d.hearing.leave(id.NodeID, d.cfg.Now())
		d.hurry()
	}
}

// place sets the position of a push in the cluster's history, which the node records
// as seen if the leader confirms the push and nothing was lost. After a new term has
// begun, pushes are not confirmed until everything was pushed again: see Begin.
func (s *session) place(x *rpc.Assignments, view *state.View) {
	if x.Full {
		s.vouched = x.Confirmed && !x.Lost
	} else {
		at := view.Cluster().At(x.Index)
		x.ClusterID, x.TermID = at.ClusterID, at.TermID
		s.vouched = s.vouched && at.TermID == s.seen.TermID
		x.Confirmed = s.vouched
	}
	s.doubtful.Store(!x.Confirmed)
	if s.vouched {
		s.seen = model.ClusterPoint{ClusterID: x.ClusterID, TermID: x.TermID, Index: x.Index}
	}
}

// everything returns the full set for a node that has seen a position of the history.
func (d *Dispatcher) everything(ctx context.Context, nodeID string, seen model.ClusterPoint) *rpc.Assignments {
	view, confirmed := d.vouch(ctx)
	at := view.Cluster().At(view.Index())
	out := &rpc.Assignments{
		Index: view.Index(), Full: true, Confirmed: confirmed, ClusterID: at.ClusterID, TermID: at.TermID,
		Lost: confirmed && view.Cluster().Lacks(seen),
	}
	for _, a := range view.AllocsByNode(nodeID) {
		out.Set = append(out.Set, assignment(a))
	}
	return out
}

// follow reads the changes of allocs and plugins and notifies the sessions.
func (d *Dispatcher) follow(ctx context.Context) {
	feed := d.cfg.Store.Subscribe(state.TableAllocs, state.TablePluginSpecs)
	defer feed.Close()
	d.resyncAll() // for changes before the feed began
	for {
		batch, err := feed.Next(ctx)
		if err != nil {
			return // only the end of ctx ends a feed
		}
		if batch.Resync {
			d.resyncAll()
			continue
		}
		for i := range batch.Changes {
			d.heed(&batch.Changes[i])
		}
	}
}

// heed passes one change to the sessions that it concerns. A change that causes a panic is
// skipped; its node learns of it by the next full set.
func (d *Dispatcher) heed(c *state.Change) {
	defer panics.Handle(func(p *panics.Panic) {
		d.logger.Error("a change could not be passed to its node; this is a defect of drover", p.Fields("table", c.Table, "index", c.Index)...)
	})
	if c.Table == state.TablePluginSpecs {
		d.tellPlugins(c)
	} else {
		d.tell(c)
	}
}

func (d *Dispatcher) resyncAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		s.resync()
	}
}

// tell adds a change to the session of the alloc's node if the node must act on it.
func (d *Dispatcher) tell(c *state.Change) {
	old, _ := c.Old.(*model.Allocation)
	now, _ := c.New.(*model.Allocation)
	alloc := now
	switch {
	case now == nil && old == nil:
		return
	case now == nil:
		alloc = old
	case old != nil && old.AllocModifyIndex == now.AllocModifyIndex:
		return // a report of the node itself
	}
	d.mu.Lock()
	s := d.sessions[alloc.NodeID]
	d.mu.Unlock()
	if s != nil {
		s.note(c.Index, old, now)
	}
}

// FetchAllocs returns allocs of the node with their jobs.
func (d *Dispatcher) FetchAllocs(ctx context.Context, id rpc.Identity, allocIDs []string) ([]*model.Allocation, error) {
	view := d.abreast(ctx, id, 0)
	if _, err := d.known(view, id); err != nil {
		return nil, err
	}
	var out []*model.Allocation
	seen := map[string]bool{}
	for _, allocID := range allocIDs {
		if a := view.AllocByID(allocID); a != nil && a.NodeID == id.NodeID && !seen[a.ID] {
			seen[a.ID] = true
			out = append(out, view.AllocWithJob(a))
		}
	}
	return out, nil
}
