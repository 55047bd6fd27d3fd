// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package backup_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/backup"
)

// source gives snapshots with a text, or fails.
type source struct {
	text  string
	lies  bool // the digest is of something else
	err   error
	taken atomic.Int64
}

func (s *source) take(context.Context) (*backup.Snapshot, error) {
	s.taken.Add(1)
	if s.err != nil {
		return nil, s.err
	}
	sum := sha256.Sum256([]byte(s.text))
	if s.lies {
		sum[0]++
	}
	return &backup.Snapshot{ReadCloser: io.NopCloser(strings.NewReader(s.text)), Digest: "sha-256=" + base64.StdEncoding.EncodeToString(sum[:])}, nil
}

func verify(r io.Reader) (uint64, error) {
	b, err := io.ReadAll(r)
	if err == nil && !strings.HasPrefix(string(b), "good") {
		err = errors.New("not good")
	}
	return 7, err
}

// breaking is a store whose Put fails while it is full, and whose Delete fails while it is
// locked.
type breaking struct {
	backup.Store
	full, locked atomic.Bool
}

func (b *breaking) Delete(ctx context.Context, name string) error {
	if b.locked.Load() {
		return errors.New("locked")
	}
	return b.Store.Delete(ctx, name)
}

func (b *breaking) Put(ctx context.Context, file, name, sum string) error {
	if b.full.Load() {
		return errors.New("no room")
	}
	return b.Store.Put(ctx, file, name, sum)
}

func folder(t *testing.T) (dir string, s *breaking) {
	t.Helper()
	dir = t.TempDir()
	store, err := backup.Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, &breaking{Store: store}
}

func agent(from *source, store backup.Store, retain int) *backup.Agent {
	return backup.New(backup.Config{
		Interval: time.Hour, Retain: retain, Prefix: "d", Store: store, Take: from.take, Verify: verify, Now: time.Now, Logger: hclog.NewNullLogger(),
	})
}

func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func write(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// during runs the agent for some time.
func during(t *testing.T, a *backup.Agent, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	a.Run(ctx)
}

func TestASnapshotIsTakenAtOnceAndThenEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, store := folder(t)
		from := &source{text: "good"}
		during(t, agent(from, store, 0), 150*time.Minute)
		if len(files(t, dir)) != 3 || from.taken.Load() != 3 {
			t.Errorf("%d taken, and there are %v", from.taken.Load(), files(t, dir))
		}
	})
}

func TestAnAgentThatBeginsAgainGoesOnWhereTheLastOneWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store := folder(t)
		from := &source{text: "good"}
		during(t, agent(from, store, 0), 30*time.Minute)
		during(t, agent(from, store, 0), 29*time.Minute)
		if from.taken.Load() != 1 {
			t.Errorf("%d were taken within the first hour", from.taken.Load())
		}
		during(t, agent(from, store, 0), 2*time.Minute)
		if from.taken.Load() != 2 {
			t.Errorf("%d were taken after an hour", from.taken.Load())
		}
	})
}

func TestAgentsWithOneStoreTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store := folder(t)
		from := &source{text: "good"}
		done := make(chan struct{})
		first, second := agent(from, store, 0), agent(from, store, 0)
		during(t, first, time.Minute)
		go func() { defer close(done); during(t, first, 3*time.Hour) }()
		time.Sleep(10 * time.Minute)
		during(t, second, 2*time.Hour+50*time.Minute)
		<-done
		if n := from.taken.Load(); n < 3 || n > 4 {
			t.Errorf("%d were taken in three hours", from.taken.Load())
		}
	})
}

func TestASnapshotFromTheFutureDelaysTheNextByOneIntervalAtMost(t *testing.T) {
	for name, c := range map[string]struct {
		ahead time.Duration // of the stored snapshot
		taken int64         // within three hours
	}{"a clock is a little ahead": {30 * time.Minute, 2}, "a clock was wrong by a year": {365 * 24 * time.Hour, 3}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, store := folder(t)
				write(t, dir, fmt.Sprintf("d-%d.snap", time.Now().Add(c.ahead).UnixNano()))
				from := &source{text: "good"}
				during(t, agent(from, store, 0), 175*time.Minute)
				if from.taken.Load() != c.taken {
					t.Errorf("%d were taken, not %d", from.taken.Load(), c.taken)
				}
			})
		})
	}
}

func TestRetentionRemovesWhatAWrongClockHasNamedBeforeWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, store := folder(t)
		write(t, dir, "d-1.snap", "d-8000000000000000000.snap", "d-9000000000000000000.snap")
		a := agent(&source{text: "good"}, store, 2)
		kept, err := a.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := files(t, dir); !slices.Equal(got, []string{"d-1.snap", kept.Name}) {
			t.Errorf("there are %v", got)
		}
	})
}

func TestRetentionRemovesTheOldestOfItsOwnNamesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, store := folder(t)
		foreign := []string{"d-1.snap.bak", "d-old.snap", "d-01.snap", "e-1.snap", "d.snap", "x-d-1.snap", "d--5.snap", "README"}
		write(t, dir, foreign...)
		write(t, dir, "d-1.snap", "d-2.snap", "d-30.snap")
		a := agent(&source{text: "good"}, store, 2)
		if _, err := a.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		left := files(t, dir)
		for _, f := range foreign {
			if !slices.Contains(left, f) {
				t.Errorf("%s was removed", f)
			}
		}
		if len(left) != len(foreign)+2 || !slices.Contains(left, "d-30.snap") {
			t.Errorf("left are %v", left)
		}
		if st := a.Status(); st.Removed != 2 || st.Taken != 1 || st.LastIndex != 7 || len(st.Snapshots) != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestWhatIsNotWholeIsNeitherStoredNorReplacesAnything(t *testing.T) {
	for name, from := range map[string]*source{
		"a digest that differs": {text: "good", lies: true}, "no snapshot of ours": {text: "bad"}, "a server that fails": {err: errors.New("no leader")},
	} {
		t.Run(name, func(t *testing.T) {
			dir, store := folder(t)
			write(t, dir, "d-1.snap")
			if _, err := agent(from, store, 1).Once(t.Context()); err == nil {
				t.Error("no error")
			}
			if got := files(t, dir); len(got) != 1 || got[0] != "d-1.snap" {
				t.Errorf("there are %v", got)
			}
		})
	}
}

func TestAFailureIsRetriedWithGrowingPausesAndShownUntilASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, store := folder(t)
		from := &source{text: "good"}
		store.full.Store(true)
		a := agent(from, store, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.Run(ctx) }()
		time.Sleep(10 * time.Minute) // after 0, 1, 3, 7, 15, 31, 63, 127, 255 and 511 s
		st := a.Status()
		if st.Failures != 10 || st.Failed != 10 || !strings.Contains(st.LastError, "no room") || len(files(t, dir)) != 0 {
			t.Errorf("%+v; there are %v", st, files(t, dir))
		}
		store.full.Store(false)
		time.Sleep(5 * time.Minute)
		if st := a.Status(); st.Failures != 0 || st.Failed != 10 || st.LastError != "" || st.Taken != 1 {
			t.Errorf("after a success: %+v", st)
		}
		cancel()
		<-done
	})
}

func TestThatOldSnapshotsCannotBeRemovedIsShownUntilTheyAre(t *testing.T) {
	dir, store := folder(t)
	write(t, dir, "d-1.snap", "d-2.snap")
	a := agent(&source{text: "good"}, store, 2)
	for _, locked := range []bool{true, false} {
		store.locked.Store(locked)
		if _, err := a.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := a.Status(); st.Failures != 0 || strings.Contains(st.LastError, "could not be removed: remove d-1.snap: locked") != locked || len(files(t, dir)) > 2 != locked {
			t.Errorf("locked %v: %+v; there are %v", locked, st, files(t, dir))
		}
	}
}

func TestUnfinishedFilesOfAKilledAgentAreRemovedAfterAnHour(t *testing.T) {
	dir, store := folder(t)
	write(t, dir, ".d-1.part", ".d-2.part", ".e-1.part", "d-1.snap")
	old := time.Now().Add(-2 * time.Hour)
	for _, f := range []string{".d-1.part", ".e-1.part"} {
		if err := os.Chtimes(filepath.Join(dir, f), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := agent(&source{text: "good"}, store, 2).Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); slices.Contains(got, ".d-1.part") || !slices.Contains(got, ".d-2.part") || !slices.Contains(got, ".e-1.part") || len(got) != 4 {
		t.Errorf("there are %v", got)
	}
}
