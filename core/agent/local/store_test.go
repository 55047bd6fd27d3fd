// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/agent/local"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/durable"
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

// keys returns the keys of the store in dir, which must be closed.
func keys(t *testing.T, dir string) (out []string) {
	t.Helper()
	db, err := durable.Open(dir, durable.ProfileDev, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if key := string(it.Item().KeyCopy(nil)); strings.Contains(key, "/") { // the count of commits has none
				out = append(out, key)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAValueOfAnySizeIsReplacedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	sizes := []int{10, durable.LargestValue, durable.LargestValue + 1, 3 << 20, 200 << 10, 200 << 10, 0, 5 << 20, 1}
	for i, size := range sizes {
		want := bytes.Repeat([]byte{byte('a' + i)}, size)
		s := open(t, dir)
		if err := s.Put(t.Context(), "k", want); err != nil {
			t.Fatal(err)
		}
		for range 2 { // as written, and after a restart
			if got, err := s.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d: of %d bytes there are %d, %v", i, size, len(got), err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		pieces := 0
		if size > durable.LargestValue {
			pieces = (size + durable.LargestValue - 1) / durable.LargestValue
		}
		if got := keys(t, dir); len(got) != 1+pieces {
			t.Fatalf("%d: of %d bytes there are %d keys", i, size, len(got))
		}
	}
}

func TestALargeAllocIsReadAndDeletedWithItsPieces(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	large := &alloc.Record{Alloc: &model.Allocation{ID: "a1", Job: &model.Job{ID: "j", Meta: map[string]string{"k": strings.Repeat("x", 2<<20)}}}}
	if err := s.PutAlloc(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	got, err := s.Allocs()
	if err != nil || len(got) != 1 || len(got[0].Alloc.Job.Meta["k"]) != 2<<20 {
		t.Fatalf("%d allocs, %v", len(got), err)
	}
	if err := s.DeleteAlloc(t.Context(), "a1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, dir); len(got) != 0 {
		t.Errorf("%d keys are left", len(got))
	}
}

func TestPiecesThatACrashLeftWithoutAHeadAreDeletedAndTheOldValueStays(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	old := bytes.Repeat([]byte("o"), 200<<10)
	if err := s.Put(t.Context(), "k", old); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := keys(t, dir)
	db, err := durable.Open(dir, durable.ProfileDev, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Write(func(b *badger.WriteBatch) error {
		for _, key := range []string{"piece/kv/k\x00\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00", "piece/kv/new\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00"} {
			if err := b.Set([]byte(key), []byte("n")); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if got, err := s.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, old) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, dir); !slices.Equal(got, before) {
		t.Errorf("%q, want %q", got, before)
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
