// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/nodeevals"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// slowLog takes 5 ms for an entry, as a disk does.
type slowLog struct {
	mu      sync.Mutex
	machine *fsm.FSM
	index   uint64
	fails   bool
}

func (l *slowLog) Propose(_ context.Context, data []byte) (uint64, any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	if l.fails {
		return 0, nil, errdefs.Unavailablef("no quorum")
	}
	l.index++
	answer := l.machine.ApplyBatch([]fsm.Entry{{Index: l.index, Data: data}})[0]
	if err, failed := answer.(error); failed {
		return l.index, nil, err
	}
	return l.index, answer, nil
}

func (l *slowLog) VerifyLeader(context.Context) error { return nil }

func TestAThousandNodesThatJoinAtOnceMakeAFewEvaluationsPerSystemJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.New()
		log := &slowLog{machine: fsm.New(store, hclog.NewNullLogger()), index: 10}
		tx := store.Begin()
		tx.SetIndex(10)
		for i := range 3 {
			tx.UpsertJob(&model.Job{ID: fmt.Sprint("sys-", i), Namespace: "default", Type: model.JobTypeSystem, Priority: 50, NodePool: "default"}, nil)
		}
		tx.Commit()
		var mu sync.Mutex
		n := 0
		newID := func() string { mu.Lock(); defer mu.Unlock(); n++; return fmt.Sprint("eval-", n) }
		d := New(Config{Store: store, Raft: log, Logger: hclog.NewNullLogger(), NewID: newID})
		join := func(i int) error {
			node := &model.Node{ID: fmt.Sprint("node-", i), Status: model.NodeStatusReady}
			_, err := d.joins.write(t.Context(), d, node, nodeevals.Of(store.View(), node, time.Now(), newID))
			return err
		}
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				if err := join(i); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		view := store.View()
		for i := range 3 {
			if evals := view.EvalsByJob("default", fmt.Sprint("sys-", i)); len(evals) < 1 || len(evals) > 8 {
				t.Errorf("%d evaluations of a system job for 1,000 nodes", len(evals))
			}
		}
		if view.NodeCount() != 1000 {
			t.Errorf("%d nodes of 1000", view.NodeCount())
		}
		log.fails = true
		if err := join(1000); !errdefs.IsUnavailable(err) {
			t.Errorf("a registration that could not be written: %v", err)
		}
	})
}
