// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package local_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/agent/local"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

func open(t *testing.T, dir string) *local.Store {
	t.Helper()
	s, err := local.Open(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestWhatIsKeptIsThereAfterAReopen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	now := time.Unix(100, 0).UTC()
	yes := true
	var wg sync.WaitGroup
	for i := range 50 { // together, as runners do
		wg.Go(func() {
			id := fmt.Sprint("a", i)
			rec := &alloc.Record{Alloc: &model.Allocation{ID: id, Job: &model.Job{ID: "j", Version: 7}}, Received: now, Health: &model.AllocDeploymentStatus{Healthy: &yes}}
			if err := s.PutAlloc(t.Context(), rec); err != nil {
				t.Error(err)
			}
			phase := group.New([]group.StepSpec{{Name: "previous alloc", Owner: "alloc a0"}})
			tasks := map[string]alloc.TaskRecord{"web": {State: task.New(now), Handle: &driver.Handle{TaskID: id + "/web/1", State: []byte{1}}}}
			if err := s.PutStates(t.Context(), id, alloc.States{Group: &phase, Tasks: tasks}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := s.DeleteAlloc(t.Context(), "a1"); err != nil { // not a10 to a19
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, dir)
	recs, err := s.Allocs()
	if err != nil || len(recs) != 49 {
		t.Fatalf("%d allocs, %v", len(recs), err)
	}
	for _, r := range recs {
		web := r.Tasks["web"]
		if r.Alloc.JobVersion != 7 || !r.Received.Equal(now) || !r.Health.IsHealthy() || web.State.Phase != task.Waiting || r.Group == nil || r.Group.Steps[0].Owner != "alloc a0" || web.Handle.TaskID != r.Alloc.ID+"/web/1" {
			t.Errorf("%+v", r)
		}
	}
	if v, err := s.Get(t.Context(), "k"); err != nil || string(v) != "v" {
		t.Errorf("%q %v", v, err)
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "k"); !errdefs.IsNotFound(err) {
		t.Errorf("%v", err)
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "k", nil); !errdefs.IsUnavailable(err) {
		t.Errorf("%v", err)
	}
}

func TestASecondAgentOnTheSameDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := local.Open(dir, hclog.NewNullLogger()); err == nil {
		t.Error("opened twice")
	}
}
