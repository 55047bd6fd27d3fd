// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package quota_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/quota"
)

// watched is a directory that keeps what it was told.
type watched struct {
	dir string

	mu   sync.Mutex
	told []quota.Usage
}

func (w *watched) Disk() string { return w.dir }

func (w *watched) NoteDisk(u quota.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, u)
}

func (w *watched) all() []quota.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]quota.Usage(nil), w.told...)
}

func files(t *testing.T, dir string, n int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 4096), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// watch runs a Watch in a bubble of synctest for as long as do.
func watch(t *testing.T, cfg quota.Config, do func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); quota.NewWatch(cfg).Run(ctx) }()
	synctest.Wait()
	do()
	cancel()
	<-done
}

func TestADirectoryWithoutALimitIsMeasuredInTurnAndSlowly(t *testing.T) {
	dir := t.TempDir()
	files(t, filepath.Join(dir, "small", "deep"), 10)
	files(t, filepath.Join(dir, "large"), 1500)
	if err := os.Symlink(filepath.Join(dir, "large"), filepath.Join(dir, "small", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "small", "deep", "0"), filepath.Join(dir, "small", "again")); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		small, large, gone := &watched{dir: filepath.Join(dir, "small")}, &watched{dir: filepath.Join(dir, "large")}, &watched{}
		list := func() []quota.Watched {
			return []quota.Watched{gone, large, small, &watched{dir: filepath.Join(dir, "missing")}}
		}
		watch(t, quota.Config{List: list, Entries: 100}, func() {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if n := len(large.all()) + len(small.all()); n != 0 {
				t.Errorf("%d directories were measured faster than the budget allows", n)
			}
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if got := large.all(); len(got) != 1 || got[0].Bytes < 1500*4096 || got[0].Limit != 0 {
				t.Errorf("the large one has %+v", got)
			}
			got := small.all()
			if len(got) != 1 || got[0].Bytes < 10*4096 || got[0].Bytes > 40*4096 { // links and second names count nothing
				t.Errorf("the small one has %+v", got)
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if n := len(small.all()); n != 1 {
				t.Errorf("it was measured %d times within a minute", n)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if n := len(small.all()); n < 2 {
				t.Error("it is not measured again")
			}
			if len(gone.all()) != 0 {
				t.Error("a directory of no interest was measured")
			}
		})
	})
}
