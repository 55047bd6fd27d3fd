// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"context"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/state"
)

// Feeder keeps the queues in sync with the state: it fills them when this server
// becomes the leader, follows the changes of the state, and reports freed resources to
// the blocked evaluations. Nothing else feeds the queues. It does not run in Apply, so
// that many blocked evaluations never delay a write.
type Feeder struct {
	Store   *state.Store
	Broker  *queue.Broker
	Blocked *queue.Blocked
	Logger  hclog.Logger
}

// Run feeds the queues until ctx ends; it then empties and disables them.
func (f *Feeder) Run(ctx context.Context) {
	feed := f.Store.Subscribe(state.TableEvals, state.TableNodes, state.TableAllocs, state.TableJobs, state.TableSchedulerConfig)
	defer feed.Close()
	f.enable(true)
	defer f.enable(false)
	f.reconcile()
	for {
		batch, err := feed.Next(ctx)
		switch {
		case err != nil:
			return
		case batch.Resync:
			f.reconcile()
		default:
			f.follow(batch)
		}
	}
}

func (f *Feeder) enable(on bool) {
	f.Broker.SetEnabled(on)
	f.Blocked.SetEnabled(on)
}

// reconcile syncs the queues with the state without knowing the changes. Evaluations
// that workers hold stay with them.
func (f *Feeder) reconcile() {
	view := f.Store.View()
	f.Broker.Pause(view.SchedulerConfig().PauseEvalBroker)
	for _, id := range slices.Concat(f.Broker.Known(), f.Blocked.Known()) {
		f.survive(func() { f.sync(id, view.EvalByID(id)) }, "eval_id", id)
	}
	for e := range view.Evals() {
		f.survive(func() { f.sync(e.ID, e) }, "eval_id", e.ID)
	}
	// It is unknown where resources were freed meanwhile.
	f.Blocked.UnblockAll(view.TableIndex(state.TableNodes, state.TableAllocs, state.TableSchedulerConfig))
}

// sync puts an evaluation into the queue for its newest value; nil means that it was
// deleted.
func (f *Feeder) sync(id string, e *model.Evaluation) {
	switch {
	case e == nil || e.TerminalStatus():
		f.Broker.Forget(id)
		f.Blocked.Forget(id)
	case e.ShouldEnqueue(), retriesLater(e):
		f.Blocked.Forget(id)
		f.Broker.Enqueue(e)
	case e.ShouldBlock() && !f.Broker.Has(e):
		f.Blocked.Block(e)
	}
}

// retriesLater reports whether a blocked evaluation waits for a time instead of
// resources.
func retriesLater(e *model.Evaluation) bool { return e.ShouldBlock() && !e.WaitUntil.IsZero() }

// follow processes the changes of a batch. It uses the newest view, not the value in
// the batch, because a worker may have completed the evaluation since. Freed resources
// on several nodes of a class are reported once.
func (f *Feeder) follow(batch state.Batch) {
	view := f.Store.View()
	room := map[string]uint64{} // computed class -> index
	for _, c := range batch.Changes {
		f.survive(func() { f.take(view, c, room) }, "table", c.Table, "index", c.Index)
	}
	for class, index := range room {
		f.survive(func() { f.Blocked.Unblock(class, index) }, "class", class)
	}
}

// survive feeds one item to the queues. An item that causes a panic is left out until it
// changes or the queues are reconciled.
func (f *Feeder) survive(feed func(), item ...any) {
	if p := panics.Catch(feed); p != nil {
		f.Logger.Error("the queues do not follow a change of the state; this is a defect of drover", p.Fields(item...)...)
	}
}

func (f *Feeder) take(view *state.View, c state.Change, room map[string]uint64) {
	obj := c.New
	if obj == nil {
		obj = c.Old
	}
	switch obj := obj.(type) {
	case *model.Evaluation:
		f.sync(obj.ID, view.EvalByID(obj.ID))
	case *model.Node:
		f.node(c, room)
	case *model.Allocation:
		f.freed(view, c, room)
	case *model.Job:
		if old, ok := c.Old.(*model.Job); ok && (c.New == nil || old.JobModifyIndex != obj.JobModifyIndex) {
			f.Blocked.Untrack(obj.Namespace, obj.ID, c.Index)
		}
	case *model.SchedulerConfiguration:
		f.Broker.Pause(view.SchedulerConfig().PauseEvalBroker)
		f.Blocked.UnblockAll(c.Index)
	}
}

// node records freed resources on a node that has become ready, has changed its class
// or has other capacity than before.
func (f *Feeder) node(c state.Change, room map[string]uint64) {
	old, _ := c.Old.(*model.Node)
	n, ok := c.New.(*model.Node)
	if !ok || !n.Ready() || old != nil && old.Ready() && old.ComputedClass == n.ComputedClass && feasible.SameRoom(old, n) {
		return
	}
	room[n.ComputedClass] = c.Index
	f.Blocked.UnblockNode(n.ID, c.Index)
}

// freed records freed resources of an alloc that has ended, was removed or has got fewer.
func (f *Feeder) freed(view *state.View, c state.Change, room map[string]uint64) {
	old, ok := c.Old.(*model.Allocation)
	if !ok || old.ClientTerminalStatus() {
		return
	}
	if now, ok := c.New.(*model.Allocation); ok && !now.ClientTerminalStatus() && !shrunk(old.AllocatedResources, now.AllocatedResources) {
		return
	}
	if n := view.NodeByID(old.NodeID); n != nil {
		room[n.ComputedClass] = c.Index
		f.Blocked.UnblockNode(n.ID, c.Index)
	}
}

// shrunk reports whether an alloc has got fewer resources of some kind.
func shrunk(old, now *model.AllocatedResources) bool {
	if old == now || old == nil || now == nil { // states of an alloc share what was not changed
		return false
	}
	x, y := old.Comparable(), now.Comparable()
	return y.CPUShares < x.CPUShares || y.MemoryMB < x.MemoryMB
}
