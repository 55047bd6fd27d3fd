// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package history_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/history"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// server is a state with its history.
type server struct {
	t     *testing.T
	cfg   history.Config
	store *state.Store
	h     *history.History
	index uint64
	stop  func()

	mu  sync.Mutex
	now time.Time
	log bytes.Buffer
}

func (s *server) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *server) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func newServer(t *testing.T, cfg history.Config) *server {
	t.Helper()
	s := &server{t: t, cfg: cfg, store: state.New(), now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)}
	s.cfg.Now, s.cfg.Server = s.clock, "s1"
	s.cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &s.log, Mutex: &s.mu})
	s.start()
	return s
}

func (s *server) start() {
	s.h = history.New(s.cfg, s.store)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.h.Run(ctx) }()
	s.stop = sync.OnceFunc(func() { cancel(); <-done })
	s.t.Cleanup(s.stop)
}

func (s *server) update(change func(tx *state.Tx)) {
	s.t.Helper()
	s.index++
	if err := s.store.Update(s.index, func(tx *state.Tx) error { change(tx); return nil }); err != nil {
		s.t.Fatal(err)
	}
}

// pad makes an eval about as large as is wanted.
func pad(n int) string { return strings.Repeat("0123456789abcdef", n/16) }

// evals adds evals from, ..., to-1 and removes them again.
func (s *server) evals(from, to, size int) {
	s.t.Helper()
	s.update(func(tx *state.Tx) {
		for i := from; i < to; i++ {
			tx.UpsertEval(&model.Evaluation{ID: evalID(i), Namespace: "default", JobID: fmt.Sprint("job", i%2), Status: model.EvalStatusComplete, StatusDescription: pad(size)})
		}
	})
	s.update(func(tx *state.Tx) {
		for i := from; i < to; i++ {
			tx.DeleteEval(evalID(i))
		}
	})
}

func evalID(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i) }

func (s *server) ask(q model.PastQuery) (map[string]*model.PastEvaluation, model.HistoryExtent) {
	s.t.Helper()
	list, extent, err := s.h.Evaluations(s.t.Context(), q)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]*model.PastEvaluation{}
	for _, e := range list {
		if out[e.ID] != nil {
			s.t.Fatalf("%s is shown twice", e.ID)
		}
		out[e.ID] = e
	}
	return out, extent
}

// until waits until a condition holds.
func (s *server) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// has waits until an eval is in the history.
func (s *server) has(i int) {
	s.t.Helper()
	s.until("eval "+evalID(i)+" is in the history", func() bool {
		found, _ := s.ask(model.PastQuery{Prefix: evalID(i)})
		return len(found) == 1
	})
}

func on(dir string) history.Config {
	return history.Config{Dir: filepath.Join(dir, "history"), MaxAge: 24 * time.Hour, MaxBytes: 1 << 20}
}

func TestWhatIsRemovedFromTheStateIsShownAsItWasAndFoundByItsFields(t *testing.T) {
	s := newServer(t, on(t.TempDir()))
	if found, extent := s.ask(model.PastQuery{}); len(found) > 0 || !extent.Since.IsZero() || extent.Server != "s1" || extent.Missing != "" {
		t.Errorf("before: %v, %+v", found, extent)
	}
	if _, err := os.Stat(s.cfg.Dir); !os.IsNotExist(err) {
		t.Errorf("a question made the store: %v", err)
	}
	d := &model.Deployment{
		ID: "d1d1d1d1-0000-4000-8000-000000000000", Namespace: "team", JobID: "web", JobVersion: 3, Status: model.DeploymentStatusFailed, StatusDescription: "no progress",
		TaskGroups: map[string]*model.DeploymentState{"g": {DesiredTotal: 3, RequireProgressBy: s.clock()}},
	}
	s.update(func(tx *state.Tx) { tx.UpsertDeployment(d, 7) })
	want := s.store.View().DeploymentByID(d.ID)
	s.update(func(tx *state.Tx) { tx.DeleteDeployment(d.ID) })
	s.evals(0, 6, 0)
	s.has(5)

	list, extent, err := s.h.Deployments(t.Context(), model.PastQuery{Namespace: "team", Prefix: "d1d1"})
	if err != nil || len(list) != 1 || !list[0].CollectedAt.Equal(s.clock()) || extent.Since.IsZero() {
		t.Fatalf("%+v, %+v, %v", list, extent, err)
	}
	if got := list[0].Deployment; got.StatusDescription != want.StatusDescription || got.ModifyIndex != want.ModifyIndex || got.CreateTime != want.CreateTime ||
		!got.TaskGroups["g"].RequireProgressBy.Equal(want.TaskGroups["g"].RequireProgressBy) || got.TaskGroups["g"].DesiredTotal != 3 {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, c := range []struct {
		q    model.PastQuery
		want int
	}{
		{model.PastQuery{}, 6}, {model.PastQuery{JobID: "job1"}, 3}, {model.PastQuery{Namespace: "team"}, 0},
		{model.PastQuery{Prefix: "0000000"}, 6}, {model.PastQuery{Prefix: evalID(4)}, 1}, {model.PastQuery{Prefix: "f"}, 0},
	} {
		if found, _ := s.ask(c.q); len(found) != c.want {
			t.Errorf("%+v finds %d, not %d", c.q, len(found), c.want)
		}
	}
}

func TestAnObjectThatIsRemovedTwiceIsShownOnce(t *testing.T) {
	s := newServer(t, on(t.TempDir()))
	s.evals(1, 2, 0)
	s.has(1)
	s.pass(10 * time.Hour) // a segment of its own
	s.evals(1, 3, 0)       // a snapshot had brought it back
	s.has(2)
	if found, _ := s.ask(model.PastQuery{}); len(found) != 2 || !found[evalID(1)].CollectedAt.Equal(s.clock()) {
		t.Errorf("%v", found)
	}
}

func TestWhatTheLogRemovesAgainAfterARestartKeepsItsTime(t *testing.T) {
	s := newServer(t, on(t.TempDir()))
	s.evals(1, 4, 0)
	s.has(3)
	was := s.clock()
	s.stop()
	s.pass(time.Hour)
	s.store, s.index = state.New(), 0
	s.start()
	s.evals(1, 4, 0) // the same entries
	s.evals(4, 5, 0)
	s.has(4)
	found, _ := s.ask(model.PastQuery{})
	for i, at := range map[int]time.Time{1: was, 3: was, 4: s.clock()} {
		if e := found[evalID(i)]; e == nil || !e.CollectedAt.Equal(at) {
			t.Errorf("eval %d: %+v, want one of %v", i, e, at)
		}
	}
}

func TestALargeObjectIsKept(t *testing.T) {
	s := newServer(t, on(t.TempDir()))
	s.evals(1, 2, 300<<10)
	s.has(1)
	if found, _ := s.ask(model.PastQuery{}); found[evalID(1)].StatusDescription != pad(300<<10) {
		t.Errorf("it came back changed")
	}
}

func TestWhatIsOlderThanItsTimeIsNotShownAndLeavesTheDisk(t *testing.T) {
	s := newServer(t, on(t.TempDir()))
	for i := range 30 {
		s.evals(i, i+1, 0)
		s.has(i)
		s.pass(time.Hour)
	}
	found, extent := s.ask(model.PastQuery{})
	for i := range 30 {
		if got, want := found[evalID(i)] != nil, i >= 30-24; got != want {
			t.Errorf("eval %d of %d hours ago is shown: %v", i, 30-i, got)
		}
	}
	if age := s.clock().Sub(extent.Since); age > 28*time.Hour {
		t.Errorf("the disk holds what is %v old", age)
	}
}

func TestTheDiskHoldsNoMoreThanItMay(t *testing.T) {
	s := newServer(t, on(t.TempDir()))
	const each, rounds = 200, 30 // of 1 KiB each: 6 MiB in sum
	for r := range rounds {
		s.evals(r*each, (r+1)*each, 1000)
		s.has((r+1)*each - 1)
	}
	found, _ := s.ask(model.PastQuery{})
	if n := len(found); n > 512 || n < 300 { // half of 1 MiB is for evaluations
		t.Errorf("%d of %d evals are kept", n, each*rounds)
	}
	if found[evalID(each*rounds-1)] == nil {
		t.Errorf("the newest is gone")
	}
	s.stop()
	var size int64
	err := filepath.WalkDir(s.cfg.Dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, failed := d.Info()
			if failed != nil {
				return failed
			}
			size += info.Size()
		}
		return err
	})
	if err != nil || size > 4<<20 {
		t.Errorf("the directory has %d bytes, %v", size, err)
	}
}

func TestTheHistoryOutlivesARestartAndAnAskedServerThatStopsSaysSo(t *testing.T) {
	s := newServer(t, on(t.TempDir()))
	s.evals(1, 4, 0)
	s.has(3)
	s.stop()
	if _, _, err := s.h.Evaluations(t.Context(), model.PastQuery{}); !errdefs.IsUnavailable(err) {
		t.Errorf("asked after its end: %v", err)
	}
	s.start()
	if found, extent := s.ask(model.PastQuery{}); len(found) != 3 || extent.Missing != "" {
		t.Errorf("%v, %+v", found, extent)
	}
}

func TestLostChangesAreSaidAndWhatWasKeptStays(t *testing.T) {
	s := newServer(t, on(t.TempDir()))
	s.evals(1, 2, 0)
	s.has(1)
	var saved bytes.Buffer
	if err := s.store.View().Save(&saved, fsm.NewCodec()); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Restore(&saved, fsm.NewCodec()); err != nil {
		t.Fatal(err)
	}
	s.until("it says that something is missing", func() bool {
		_, extent := s.ask(model.PastQuery{})
		return strings.Contains(extent.Missing, "snapshot")
	})
	if found, _ := s.ask(model.PastQuery{}); len(found) != 1 {
		t.Errorf("%v", found)
	}
}

func TestAFullDiskCostsOnlyWhatIsNew(t *testing.T) {
	cfg := on(t.TempDir())
	cfg.Reserve = math.MaxUint64
	s := newServer(t, cfg)
	s.evals(1, 4, 0)
	s.until("it says what is missing", func() bool {
		_, extent := s.ask(model.PastQuery{})
		return strings.HasPrefix(extent.Missing, "3 removed objects are missing") && strings.Contains(extent.Missing, "is full")
	})
	if _, err := os.Stat(cfg.Dir); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
	s.until("the log says so", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(s.log.String(), "missing in the history")
	})
}

func TestADamagedHistoryBeginsAnew(t *testing.T) {
	s := newServer(t, on(t.TempDir()))
	s.evals(1, 4, 0)
	s.has(3)
	s.stop()
	for name, damage := range map[string]func(file string) error{
		"MANIFEST":    func(file string) error { return os.WriteFile(file, []byte("something else"), 0o600) },
		"KEYREGISTRY": func(file string) error { return os.Truncate(file, 5) },
		"*.sst":       os.Remove,
	} {
		files, err := filepath.Glob(filepath.Join(s.cfg.Dir, name))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", name, files, err)
		}
		if err := damage(files[0]); err != nil {
			t.Fatal(err)
		}
		s.start()
		found, extent := s.ask(model.PastQuery{})
		if len(found) != 0 || !strings.Contains(extent.Missing, "begins anew, because it was damaged") || strings.Contains(extent.Missing, "backup") {
			t.Errorf("%s: %v, %+v", name, found, extent)
		}
		s.evals(7, 8, 0)
		s.has(7)
		s.stop()
	}
}

func TestAHistoryThatIsOffLeavesNothingAndSaysHowToSwitchItOn(t *testing.T) {
	s := newServer(t, on(t.TempDir()))
	s.evals(1, 2, 0)
	s.has(1)
	s.stop()
	s.cfg.MaxBytes = 0
	s.start()
	s.until("what it held is removed", func() bool {
		_, err := os.Stat(s.cfg.Dir)
		return os.IsNotExist(err)
	})
	if found, extent := s.ask(model.PastQuery{}); len(found) > 0 || !strings.Contains(extent.Missing, "history_max_size") {
		t.Errorf("%v, %+v", found, extent)
	}
	s.stop()
	s.cfg.Dir = ""
	s.start()
	if _, extent := s.ask(model.PastQuery{}); !strings.Contains(extent.Missing, "no data directory") {
		t.Errorf("%+v", extent)
	}
}
