// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/sleep"
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
	feed := f.Store.Subscribe(state.TableEvals, state.TableNodes, state.TableAllocs, state.TableJobs, state.TableSchedulerConfig, state.TableHostVolumes, state.TableCSIVolumes,
		state.TableNamespaces, state.TableNodePools)
	defer feed.Close()
	f.enable(true)
	defer f.enable(false)
	f.reconcile()
	for {
		batch, err := f.next(ctx, feed)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.Blocked.ReleaseDue(time.Now())
		case batch.Resync:
			f.reconcile()
		default:
			f.follow(batch)
		}
	}
}

// next waits for changes, at most until the next limit of what depends on other jobs.
func (f *Feeder) next(ctx context.Context, feed *state.Feed) (state.Batch, error) {
	if at, ok := f.Blocked.NextLimit(); ok {
		limited, cancel := context.WithTimeout(ctx, min(time.Until(at), sleep.Longest))
		defer cancel()
		ctx = limited
	}
	return feed.Next(ctx)
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
	f.Broker.Reconfigure()
	pending := slices.SortedFunc(view.Evals(), func(x, y *model.Evaluation) int { return cmp.Compare(x.CreateIndex, y.CreateIndex) })
	for _, e := range pending {
		f.survive(func() { f.sync(e.ID, e) }, "eval_id", e.ID)
	}
	// It is unknown where resources were freed meanwhile.
	f.Blocked.UnblockAll(view.TableIndex(state.TableNodes, state.TableAllocs, state.TableSchedulerConfig, state.TableNamespaces, state.TableNodePools))
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
		if holdsLane(e) {
			f.Broker.Hold(e)
		}
		view := f.Store.View()
		f.Blocked.Block(e, needOf(view, e))
		if released(view, e) { // what it depends on has changed since it was decided
			f.Blocked.Release(e.ID)
		}
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
	room, changed, awaited := rooms{}, map[model.JobKey]bool{}, f.Blocked.Awaits()
	for _, c := range batch.Changes {
		f.survive(func() { f.take(view, c, room) }, "table", c.Table, "index", c.Index)
		if job, ok := jobOf(c); ok && awaited {
			changed[job] = true
		}
	}
	f.dependants(view, changed)
	for _, r := range room {
		f.survive(func() { f.Blocked.Unblock(r.Room, r.index) }, "class", r.Class)
	}
}

// survive feeds one item to the queues. An item that causes a panic is left out until it
// changes or the queues are reconciled.
func (f *Feeder) survive(feed func(), item ...any) {
	if p := panics.Catch(feed); p != nil {
		f.Logger.Error("the queues do not follow a change of the state; this is a defect of drover", p.Fields(item...)...)
	}
}

func (f *Feeder) take(view *state.View, c state.Change, room rooms) {
	obj := c.New
	if obj == nil {
		obj = c.Old
	}
	switch obj := obj.(type) {
	case *model.Evaluation:
		f.sync(obj.ID, view.EvalByID(obj.ID))
	case *model.Node:
		f.node(view, c, room)
	case *model.Allocation:
		f.freed(view, c, room)
	case *model.Job:
		if old, ok := c.Old.(*model.Job); ok && (c.New == nil || old.JobModifyIndex != obj.JobModifyIndex) {
			f.Broker.Unhold(f.Blocked.Untrack(obj.Namespace, obj.ID, c.Index))
		}
	case *model.HostVolume: // it may offer more than before
		if n := view.NodeByID(obj.NodeID); n != nil {
			room.add(view, n, c.Index)
			f.Blocked.UnblockNode(n.ID, c.Index)
		}
	case *model.CSIVolume: // it can be used from nodes of any class
		old, _ := c.Old.(*model.CSIVolume)
		if c.New != nil && (old == nil || old.State != obj.State || old.ExternalID != obj.ExternalID || !reflect.DeepEqual(old.RequestedCapabilities, obj.RequestedCapabilities)) {
			f.Blocked.UnblockAll(c.Index)
		}
	case *model.SchedulerConfiguration:
		f.Broker.Pause(view.SchedulerConfig().PauseEvalBroker)
		f.rules(c.Index)
	case *model.Namespace, *model.NodePool:
		f.rules(c.Index)
	}
}

// rules applies a change of the scheduler's configuration or of the rules of lanes.
func (f *Feeder) rules(index uint64) {
	f.Broker.Reconfigure()
	for _, e := range f.Blocked.Held() { // their lane may be ordered now
		if holdsLane(e) {
			f.Broker.Hold(e)
		}
	}
	f.Blocked.UnblockAll(index)
}

// node records freed resources on a node that has become ready, has changed its class
// or has other capacity than before.
func (f *Feeder) node(view *state.View, c state.Change, room rooms) {
	old, _ := c.Old.(*model.Node)
	n, ok := c.New.(*model.Node)
	if !ok || !n.Ready() || old != nil && old.Ready() && old.ComputedClass == n.ComputedClass && feasible.SameRoom(old, n) {
		return
	}
	room.add(view, n, c.Index)
	f.Blocked.UnblockNode(n.ID, c.Index)
}

// freed records freed resources of an alloc that has ended, was removed or has got fewer.
func (f *Feeder) freed(view *state.View, c state.Change, room rooms) {
	old, ok := c.Old.(*model.Allocation)
	if !ok || old.ClientTerminalStatus() {
		return
	}
	if now, ok := c.New.(*model.Allocation); ok && !now.ClientTerminalStatus() && !shrunk(old.AllocatedResources, now.AllocatedResources) {
		return
	}
	if n := view.NodeByID(old.NodeID); n != nil {
		room.add(view, n, c.Index)
		f.Blocked.UnblockNode(n.ID, c.Index)
	}
	if usesCSI(view, old) { // whoever waits for its volumes may need room on another node
		f.Blocked.UnblockAll(c.Index)
	}
}

// usesCSI reports whether an alloc has volumes of storage systems, which can be used on
// another node when it has ended.
func usesCSI(view *state.View, a *model.Allocation) bool {
	job := view.JobOf(a)
	if job == nil {
		return false
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	return tg != nil && len(tg.CSIRequests()) > 0
}

// shrunk reports whether an alloc has got fewer resources of some kind.
func shrunk(old, now *model.AllocatedResources) bool {
	if old == now || old == nil || now == nil { // states of an alloc share what was not changed
		return false
	}
	x, y := old.Comparable(), now.Comparable()
	return y.CPUShares < x.CPUShares || y.MemoryMB < x.MemoryMB
}
