// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"slices"
	"sync"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// maxJoins is the number of registrations that share a log entry.
const maxJoins = 256

// joins writes registrations. Those that arrive while others are being written wait for
// them and then share one entry, in which every job has one evaluation: many nodes that
// join at once cost a few evaluations per system job, not one per node and job.
type joins struct {
	slot chan struct{} // held by whoever writes

	mu      sync.Mutex
	waiting []*join
}

type join struct {
	node  *model.Node
	evals []*model.Evaluation
	done  chan struct{}
	index uint64
	err   error
}

func newJoins() *joins { return &joins{slot: make(chan struct{}, 1)} }

// write stores a registration with its evaluations, alone or together with others.
func (j *joins) write(ctx context.Context, d *Dispatcher, node *model.Node, evals []*model.Evaluation) (uint64, error) {
	mine := &join{node: node, evals: evals, done: make(chan struct{}), err: errdefs.Internalf("the registration was not written")}
	j.mu.Lock()
	j.waiting = append(j.waiting, mine)
	j.mu.Unlock()
	select {
	case j.slot <- struct{}{}:
		defer func() { <-j.slot }()
		for !mine.ended() { // more than maxJoins may be before it
			j.turn(ctx, d)
		}
		return mine.index, mine.err
	case <-mine.done:
		return mine.index, mine.err
	case <-ctx.Done():
		j.mu.Lock()
		j.waiting = slices.DeleteFunc(j.waiting, func(one *join) bool { return one == mine })
		j.mu.Unlock()
		return 0, ctx.Err()
	}
}

func (one *join) ended() bool {
	select {
	case <-one.done:
		return true
	default:
		return false
	}
}

// turn writes those that wait.
func (j *joins) turn(ctx context.Context, d *Dispatcher) {
	j.mu.Lock()
	n := min(len(j.waiting), maxJoins)
	batch := slices.Clone(j.waiting[:n])
	j.waiting = slices.Delete(j.waiting, 0, n)
	j.mu.Unlock()
	if n == 0 {
		return
	}
	defer func() { // if the log panics too
		for _, one := range batch {
			close(one.done)
		}
	}()
	index, err := d.propose(context.WithoutCancel(ctx), together(batch)) // others wait for it as well
	for _, one := range batch {
		one.index, one.err = index, err
	}
}

// together returns one command for several registrations, with one evaluation per job.
func together(batch []*join) fsm.Command {
	var cmds []fsm.Command
	var evals []*model.Evaluation
	of := map[model.JobKey]*model.Evaluation{}
	for _, one := range batch {
		cmds = append(cmds, &fsm.RegisterNode{Node: one.node})
		for _, e := range one.evals {
			key := model.JobKey{Namespace: e.Namespace, ID: e.JobID}
			if old := of[key]; old != nil {
				old.NodeID, old.NodeModifyIndex = "", 0 // of several nodes
				continue
			}
			of[key] = e
			evals = append(evals, e)
		}
	}
	if len(evals) > 0 {
		cmds = append(cmds, &fsm.UpsertEvals{Evals: evals})
	}
	if len(cmds) == 1 {
		return cmds[0]
	}
	return &fsm.Batch{Commands: cmds}
}
