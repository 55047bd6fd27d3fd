// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocs_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/allocs"
	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// slowDisk holds every write of an alloc until as many have begun as it waits for.
type slowDisk struct {
	mu      sync.Mutex
	missing int
	all     chan struct{}
}

func (d *slowDisk) waitFor(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.missing, d.all = n, make(chan struct{})
}

func (d *slowDisk) PutAlloc(context.Context, *alloc.Record) error {
	d.mu.Lock()
	all := d.all
	if d.missing--; d.missing == 0 {
		close(all)
	}
	d.mu.Unlock()
	if all == nil {
		return nil
	}
	select {
	case <-all:
		return nil
	case <-time.After(time.Hour): // of the bubble
		return errdefs.Unavailablef("the other writes have not begun")
	}
}

func (*slowDisk) PutStates(context.Context, string, alloc.States) error { return nil }
func (*slowDisk) DeleteAlloc(context.Context, string) error             { return nil }

// noDrivers is a node on which no task starts.
type noDrivers struct{}

func (noDrivers) Driver(name string) (driver.Driver, error) {
	return nil, errdefs.NotFoundf("no driver %q", name)
}

type quiet struct{}

func (quiet) Put(*model.Allocation, bool) {}
func (quiet) Forget(string)               {}

// A node that stops hundreds of allocs must not stop one after the other.
func TestTheWritesOfManyUpdatesShareOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{}
		cfg := &alloc.Config{
			Node: func() *model.Node { return &model.Node{ID: "n1"} }, Root: t.TempDir(), Drivers: noDrivers{}, Store: disk,
			Publish: func(*model.Allocation) {}, Ended: func(string) {}, Starts: make(chan struct{}, 2), Limits: alloc.DefaultLimits(),
			Now: time.Now, Jitter: func() float64 { return 0 }, Logger: hclog.NewNullLogger(),
		}
		cfg.Checks = checks.New(checks.Config{Now: time.Now, Jitter: cfg.Jitter, Logger: cfg.Logger})
		set := allocs.New(allocs.Config{Run: cfg, Updates: quiet{}, Limited: func() {}, Garbage: func() {}, Parallel: 1, Logger: cfg.Logger})
		defer set.Close()

		job := &model.Job{ID: "j", Type: model.JobTypeService, TaskGroups: []*model.TaskGroup{{
			Name: "g", RestartPolicy: &model.RestartPolicy{Mode: model.RestartPolicyModeFail}, Tasks: []*model.Task{{Name: "t", Driver: "none"}},
		}}}
		ids := []string{"a1", "a2", "a3"}
		assign := func(index uint64, desired string) {
			t.Helper()
			x := &rpc.Assignments{}
			var list []*model.Allocation
			for _, id := range ids {
				x.Set = append(x.Set, rpc.Assignment{AllocID: id, AllocModifyIndex: index})
				list = append(list, &model.Allocation{ID: id, Job: job, TaskGroup: "g", AllocModifyIndex: index, DesiredStatus: desired})
			}
			fetch := func(context.Context, []string) ([]*model.Allocation, error) { return list, nil }
			if err := set.Apply(t.Context(), x, false, fetch); err != nil {
				t.Fatal(err)
			}
		}
		assign(1, model.AllocDesiredStatusRun)
		synctest.Wait()
		disk.waitFor(len(ids))
		begun := time.Now()
		assign(2, model.AllocDesiredStatusStop)
		if d := time.Since(begun); d > 0 {
			t.Errorf("a write has waited %v for those of the other allocs to begin", d)
		}
	})
}

// Servers know the allocs that they ask a node about, so the reason is on the node.
func TestWhyANodeDoesNotHaveAnAllocIsSaid(t *testing.T) {
	_, err := allocs.New(allocs.Config{Parallel: 1, Logger: hclog.NewNullLogger()}).Runner("a1")
	if !errdefs.IsNotFound(err) || !strings.HasPrefix(err.Error(), `Unknown allocation "a1"`) || !strings.Contains(err.Error(), "gc_max_allocs") {
		t.Error(err)
	}
}
