// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
)

// trapped is a state on which nobody can look at one node.
type trapped struct {
	plan.View
	node string
}

func (t trapped) NodeByID(id string) *model.Node {
	if id == t.node {
		panic("no node of ours has this value")
	}
	return t.View.NodeByID(id)
}

func TestAPlanOnWhichTheApplierPanicsIsRefusedAlone(t *testing.T) {
	f := start(t)
	close(f.log.gate)
	applier := plan.NewApplier(func() plan.View { return trapped{f.store.View(), "trap"} }, f.log, time.Now)
	var submitted, running sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		submitted.Go(func() {
			node := "n"
			if i%2 == 1 {
				node = "trap"
			}
			_, errs[i] = applier.Submit(context.Background(), f.place(fmt.Sprint(i), node, 1))
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() { applier.Run(ctx) })
	submitted.Wait()
	for i, err := range errs {
		if got, want := errors.Is(err, fsm.ErrPanicked), i%2 == 1; got != want || err != nil && !want {
			t.Errorf("plan %d: %v", i, err)
		}
		if a := f.store.View().AllocByID(fmt.Sprint("a", i)); (a != nil) != (i%2 == 0) {
			t.Errorf("alloc of plan %d: %v", i, a)
		}
	}
	cancel()
	running.Wait()
}
