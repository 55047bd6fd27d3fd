// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/state"
)

// Lanes reads the lanes of the queue from the state: see queue.Lanes.
type Lanes struct{ Store *state.Store }

var _ queue.Lanes = Lanes{}

// Seat implements queue.Lanes. Evaluations of a job that no longer exists belong to the
// default pool.
func (l Lanes) Seat(e *model.Evaluation) queue.Seat {
	view := l.Store.View()
	job := view.JobByID(e.Namespace, e.JobID)
	if job == nil {
		return queue.Seat{Lane: queue.LaneID{Namespace: e.Namespace, NodePool: model.NodePoolDefault}, Order: e.CreateIndex}
	}
	seat := queue.Seat{Lane: queue.LaneID{Namespace: e.Namespace, NodePool: job.NodePool}, Order: job.CreateIndex}
	seat.New = takesTurns(job.Type) && !job.Stop && len(view.AllocsByJob(job.Namespace, job.ID)) == 0
	return seat
}

// takesTurns reports whether jobs of a type wait for each other in an ordered lane. System
// jobs run on every node, and one node that is full would hold up everything.
func takesTurns(jobType string) bool {
	return jobType == model.JobTypeService || jobType == model.JobTypeBatch
}

// Rules implements queue.Lanes.
func (l Lanes) Rules(id queue.LaneID) model.LaneRules {
	view := l.Store.View()
	return model.LaneRulesOf(view.SchedulerConfig(), view.NodePoolByName(id.NodePool), view.NamespaceByName(id.Namespace))
}

// Strict implements queue.Lanes.
func (l Lanes) Strict() bool {
	return l.Store.View().SchedulerConfig().QueueOrder == model.QueuePriority
}

// needOf returns what a blocked evaluation waits for. It leaves the amounts out if less free
// room than a new alloc takes can be enough: because the job replaces its own allocs, because
// it may preempt those of others, or because the room that an alloc takes depends on the node.
func needOf(view *state.View, e *model.Evaluation) queue.Need {
	job := view.JobByID(e.Namespace, e.JobID)
	if job == nil {
		return queue.Need{}
	}
	need := queue.Need{Pool: job.NodePool}
	awaits(view, e, job, &need)
	rules := model.SchedulingOf(view.SchedulerConfig(), view.NodePoolByName(job.NodePool), view.NamespaceByName(job.Namespace))
	if !takesTurns(job.Type) || rules.Preemption.Allows(job.Type) || replaces(view, job) {
		return need
	}
	for _, tg := range job.TaskGroups {
		a := feasible.Ask(tg, nil, rules.MemoryOversubscription).Comparable()
		amount := queue.Amount{CPU: a.CPUShares, Memory: a.MemoryMB, Disk: a.DiskMB}
		for _, t := range tg.Tasks {
			if t.Resources != nil {
				for _, d := range t.Resources.Devices {
					amount.Devices += int64(d.Count)
				}
			}
		}
		need.Amounts = append(need.Amounts, amount)
	}
	return need
}

// replaces reports whether allocs of older versions of a job use nodes.
func replaces(view *state.View, job *model.Job) bool {
	for _, a := range view.AllocsByJob(job.Namespace, job.ID) {
		if !a.ClientTerminalStatus() && (a.JobVersion != job.Version || !job.Owns(a)) {
			return true
		}
	}
	return false
}

// rooms collects the room on nodes, by what evaluations see of it.
type rooms map[roomKey]*roomSince

type roomKey struct{ class, pool string }

type roomSince struct {
	queue.Room
	index uint64
}

// add adds the room that a node has. Of several nodes that are alike, the most counts.
func (r rooms) add(view *state.View, n *model.Node, index uint64) {
	free := freeOn(view, n)
	key := roomKey{n.ComputedClass, n.NodePool}
	have := r[key]
	if have == nil {
		r[key] = &roomSince{queue.Room{Class: n.ComputedClass, Pool: n.NodePool, Free: free}, index}
		return
	}
	have.Free, have.index = have.Free.Most(free), max(have.index, index)
}

// freeOn returns what is free on a node.
func freeOn(view *state.View, n *model.Node) queue.Amount {
	have := n.Capacity()
	cpu, mem, disk := view.NodeUsed(n.ID)
	free := queue.Amount{CPU: have.CPU - cpu, Memory: have.MemoryMB - mem, Disk: have.DiskMB - disk}
	if n.NodeResources == nil || len(n.NodeResources.Devices) == 0 {
		return free
	}
	for _, group := range n.NodeResources.Devices {
		free.Devices += int64(len(group.Instances))
	}
	for _, a := range view.AllocsByNode(n.ID) {
		if a.ClientTerminalStatus() || a.AllocatedResources == nil {
			continue
		}
		for _, t := range a.AllocatedResources.Tasks {
			for _, d := range t.Devices {
				free.Devices -= int64(len(d.DeviceIDs))
			}
		}
	}
	return free
}
