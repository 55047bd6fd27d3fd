// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// mostMoves limits how many moves of data between nodes pass through a server at the
	// same time.
	mostMoves = 16
	// maxAllocID is the maximum length of an alloc's id, in bytes.
	maxAllocID = 128
	// waitsEvery is the interval at which a waiting node gets the reason for the wait.
	waitsEvery = 5 * time.Second
)

// AllocData implements rpc.Servers. The state decides which data a node may get: the data
// of the alloc that one of its own allocs replaces, as long as servers want that alloc and
// its group asks for the data. So there is no token that could be stolen or replayed.
func (d *Dispatcher) AllocData(ctx context.Context, id rpc.Identity, allocID string, take func(*rpc.DataPiece) error) error {
	if len(allocID) > maxAllocID {
		return errdefs.InvalidArgumentf("the id of an alloc has %d bytes; at most %d are taken", len(allocID), maxAllocID)
	}
	d.abreast(ctx, id, 0)
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	m := move{d: d, id: id, allocID: allocID}
	from, err := m.await(ctx, take)
	if err != nil {
		return err
	}
	select {
	case d.moves <- struct{}{}:
		defer func() { <-d.moves }()
	default:
		return errdefs.Unavailablef("this server passes on the data of %d allocs at this moment; try again", mostMoves)
	}
	node, err := d.Node(from.NodeID)
	if errdefs.IsNotFound(err) {
		return lostData(from, err.Error())
	}
	if err != nil {
		return err
	}
	call, err := rpc.NewCall(rpc.MethodAllocData, rpc.DataRequest{AllocID: from.ID, Tasks: m.tasks})
	if err != nil {
		return err
	}
	go m.watch(ctx, lost)
	err = node.Call(ctx, call, nil, func(data []byte) error { return take(&rpc.DataPiece{Data: data}) })
	cause := context.Cause(ctx)
	switch {
	case cause != nil && !errors.Is(cause, context.Canceled):
		return cause
	case cause == nil && errdefs.IsDeadlineExceeded(err): // the data is still there
		return errdefs.New(errdefs.Unavailable, err)
	}
	return err
}

// move is data on its way to the alloc allocID of the node id.
type move struct {
	d       *Dispatcher
	id      rpc.Identity
	allocID string
	tasks   []string // tasks of the alloc's group
}

// await waits until the alloc with the data has ended on its node, and returns it.
func (m *move) await(ctx context.Context, take func(*rpc.DataPiece) error) (*model.Allocation, error) {
	tick := time.NewTicker(waitsEvery)
	defer tick.Stop()
	for {
		watch, stop := context.WithCancel(ctx)
		changed := m.d.cfg.Store.Watch(watch, state.Key{Table: state.TableAllocs}, state.Key{Table: state.TableNodes})
		before, ended, err := m.look(m.d.cfg.Store.View())
		if err != nil || ended {
			stop()
			return before, err
		}
		if err := take(&rpc.DataPiece{Waits: fmt.Sprintf("waits until alloc %s has ended on node %s", before.ID, before.NodeID)}); err != nil {
			stop()
			return nil, err
		}
		select { // even after a change comes a pause, because the state may change all the time
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		case <-changed:
			stop()
			if err := sleep.For(ctx, lookAgain); err != nil {
				return nil, err
			}
		case <-tick.C:
			stop()
		}
	}
}

// lookAgain is the time between two checks of a changing state.
const lookAgain = 100 * time.Millisecond

// watch ends the move when the data is lost or no longer wanted.
func (m *move) watch(ctx context.Context, lost func(error)) {
	for sleep.For(ctx, time.Second) == nil {
		if _, _, err := m.look(m.d.cfg.Store.View()); err != nil {
			lost(err)
			return
		}
	}
}

// look returns the alloc whose data is wanted and whether it has ended.
func (m *move) look(view *state.View) (before *model.Allocation, ended bool, err error) {
	if _, err := m.d.known(view, m.id); err != nil {
		return nil, false, err
	}
	a := view.AllocByID(m.allocID)
	if a == nil || a.NodeID != m.id.NodeID {
		return nil, false, errdefs.PermissionDeniedf("alloc %q does not belong to node %q", m.allocID, m.id.NodeID)
	}
	job := view.JobOf(a)
	if job == nil {
		return nil, false, errdefs.NotFoundf("the job of alloc %s is gone", a.ID)
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	if a.TerminalStatus() || tg == nil || !tg.EphemeralDisk.Moves() {
		return nil, false, errdefs.FailedPreconditionf("alloc %s is not wanted any more, or its group does not have data moved", a.ID)
	}
	if before = view.AllocByID(a.PreviousAllocation); before == nil {
		return nil, false, errdefs.NotFoundf("alloc %q, which it replaces, is gone", a.PreviousAllocation)
	}
	if before.Namespace != a.Namespace || before.JobID != a.JobID || before.TaskGroup != a.TaskGroup {
		return nil, false, errdefs.PermissionDeniedf("alloc %s, which it replaces, is not of the same group", before.ID)
	}
	if before.NodeID == a.NodeID {
		return nil, false, errdefs.NotFoundf("alloc %s was on this node and has been removed", before.ID)
	}
	switch node := view.NodeByID(before.NodeID); {
	case node == nil:
		return nil, false, lostData(before, "the node was removed")
	case !here(node):
		return nil, false, lostData(before, "the node is "+node.Status)
	}
	switch before.ClientStatus {
	case model.AllocClientStatusLost, model.AllocClientStatusUnknown:
		return nil, false, lostData(before, "the alloc is "+before.ClientStatus)
	}
	m.tasks = m.tasks[:0:0]
	for _, t := range tg.Tasks {
		m.tasks = append(m.tasks, t.Name)
	}
	return before, before.ClientTerminalStatus(), nil
}

func lostData(a *model.Allocation, why string) error {
	return errdefs.NotFoundf("node %s, which has the data of alloc %s, cannot be asked: %s", a.NodeID, a.ID, why)
}
