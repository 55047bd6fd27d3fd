// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"context"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/state"
)

// Feeder keeps the queues equal to what the state asks for: it fills them when
// this server begins to lead, follows the changes of the state, and says which
// blocked evaluations a change may help. It runs off the path that applies the
// log, so that many blocked evaluations never slow a write down.
type Feeder struct {
	Store   *state.Store
	Broker  *queue.Broker
	Blocked *queue.Blocked

	paused bool
}

// Run feeds until ctx ends; then the queues are empty and disabled.
func (f *Feeder) Run(ctx context.Context) {
	feed := f.Store.Subscribe(state.TableEvals, state.TableNodes, state.TableAllocs, state.TableJobs, state.TableSchedulerConfig)
	defer feed.Close()
	defer f.enable(false)
	f.fill()
	for {
		batch, err := feed.Next(ctx)
		switch {
		case err != nil:
			return
		case batch.Resync:
			f.fill()
		default:
			f.follow(batch)
		}
	}
}

func (f *Feeder) enable(on bool) {
	f.Broker.SetEnabled(on)
	f.Blocked.SetEnabled(on)
}

// fill rebuilds the queues from the state.
func (f *Feeder) fill() {
	view := f.Store.View()
	f.enable(false)
	f.paused = view.SchedulerConfig().PauseEvalBroker
	if f.paused {
		return
	}
	f.enable(true)
	for e := range view.Evals() {
		f.eval(e)
	}
}

func (f *Feeder) eval(e *model.Evaluation) {
	switch {
	case e.ShouldEnqueue():
		f.Broker.Enqueue(e)
	case e.ShouldBlock():
		f.Blocked.Block(e)
	}
}

// follow takes over what a batch of commits changed. Room that came on several
// nodes of a class is announced once.
func (f *Feeder) follow(batch state.Batch) {
	room := map[string]uint64{} // computed class -> index
	for _, c := range batch.Changes {
		switch obj := c.New.(type) {
		case *model.Evaluation:
			if !f.paused {
				f.eval(obj)
			}
		case *model.Node:
			f.node(c, obj, room)
		case *model.Allocation:
			f.freed(c, room)
		case *model.Job:
			if old, ok := c.Old.(*model.Job); ok && old.JobModifyIndex != obj.JobModifyIndex {
				f.Blocked.Untrack(obj.Namespace, obj.ID)
			}
		case *model.SchedulerConfiguration:
			if obj.PauseEvalBroker != f.paused {
				f.fill()
			}
			f.Blocked.UnblockAll(c.Index)
		case nil:
			f.freed(c, room)
		}
	}
	for class, index := range room {
		f.Blocked.Unblock(class, index)
	}
}

// node announces the room of a node that has become ready or has changed class.
func (f *Feeder) node(c state.Change, n *model.Node, room map[string]uint64) {
	old, _ := c.Old.(*model.Node)
	if !n.Ready() || old != nil && old.Ready() && old.ComputedClass == n.ComputedClass {
		return
	}
	room[n.ComputedClass] = c.Index
	f.Blocked.UnblockNode(n.ID, c.Index)
}

// freed announces the room of an alloc that has ended or is gone.
func (f *Feeder) freed(c state.Change, room map[string]uint64) {
	old, ok := c.Old.(*model.Allocation)
	if !ok || old.ClientTerminalStatus() {
		return
	}
	if now, ok := c.New.(*model.Allocation); ok && !now.ClientTerminalStatus() {
		return
	}
	if n := f.Store.View().NodeByID(old.NodeID); n != nil {
		room[n.ComputedClass] = c.Index
		f.Blocked.UnblockNode(n.ID, c.Index)
	}
}
