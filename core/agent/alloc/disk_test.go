// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/quota"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// limits is a file system that limits directories.
type limits struct {
	mu   sync.Mutex
	log  []string
	none error // what Limit answers
}

func (l *limits) say(words ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range words {
		words[i] = filepath.Base(w)
	}
	l.log = append(l.log, words...)
}

func (l *limits) Limit(_ context.Context, dir string, bytes int64) error {
	if bytes != 10<<20 {
		return errdefs.InvalidArgumentf("a limit of %d bytes", bytes)
	}
	l.say("limit", dir)
	return l.none
}

func (l *limits) Adopt(_ context.Context, dir, into string) error {
	l.say("adopt", dir, into)
	return nil
}

func (l *limits) Release(dir string) { l.say("release", dir) }

func withDisk(b *bed) (*model.Allocation, *limits) {
	l := &limits{}
	b.cfg.Disks = l
	a := newAlloc(newTask("web"))
	a.Job.TaskGroups[0].EphemeralDisk = &model.EphemeralDisk{Sticky: true, SizeMB: 10}
	return a, l
}

func TestTheDirectoryOfAnAllocIsLimitedUntilItIsRemoved(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a, l := withDisk(b)
		a.PreviousAllocation = "a0"
		before := allocdir.New(b.cfg.Root, "a0")
		if err := before.Build(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(before.Shared(), "data", "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b.run(a)
		synctest.Wait()
		b.wants("web", "running")
		b.r.Stop()
		synctest.Wait()
		if err := b.r.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"limit", a.ID, "adopt", "data", a.ID, "adopt", "local", a.ID, "limit", a.ID, "release", a.ID}
		if !slices.Equal(l.log, want) {
			t.Errorf("got %v, want %v", l.log, want)
		}
	})
}

func TestAnAllocWhoseDiskCannotBeLimitedRuns(t *testing.T) {
	for what, none := range map[string]error{"the file system has no limits": errdefs.Unimplementedf("no"), "the file system fails": errdefs.Internalf("broken")} {
		t.Run(what, func(t *testing.T) {
			with(t, func(t *testing.T, b *bed) {
				a, l := withDisk(b)
				l.none = none
				b.run(a)
				synctest.Wait()
				b.wants("web", "running")
				b.r.Stop()
				synctest.Wait()
			})
		})
	}
}

func TestAFullDiskIsAnEventAndNoEnd(t *testing.T) {
	const mebibyte = 1 << 20
	with(t, func(t *testing.T, b *bed) {
		a, _ := withDisk(b)
		b.run(a)
		synctest.Wait()
		full := func() (n int) {
			for _, ev := range b.r.View().TaskStates["web"].Events {
				if ev.Type == model.TaskDiskExceeded {
					n++
				}
			}
			return n
		}
		tell := func(u quota.Usage, events int) {
			t.Helper()
			b.r.NoteDisk(u)
			synctest.Wait()
			if n := full(); n != events {
				t.Errorf("after %+v there are %d events, want %d", u, n, events)
			}
		}
		if b.r.Disk() == "" {
			t.Error("its disk is of no interest")
		}
		tell(quota.Usage{Bytes: 10 * mebibyte}, 0)
		tell(quota.Usage{Bytes: 11 * mebibyte}, 1)
		b.hasEvent("web", "takes 11.0 MiB of disk, more than the 10.0 MiB of its ephemeral_disk. This node measures disks")
		tell(quota.Usage{Bytes: 10 * mebibyte}, 1)
		tell(quota.Usage{Bytes: 12 * mebibyte}, 1)
		tell(quota.Usage{Bytes: mebibyte}, 1)
		tell(quota.Usage{Bytes: 10*mebibyte - 4096, Limit: 10 * mebibyte}, 2)
		b.hasEvent("web", "The disk of the allocation is full")
		b.wants("web", "running")
		if used, size, ok := b.r.DiskUsage(); !ok || used != 10*mebibyte-4096 || size != 10*mebibyte {
			t.Errorf("it takes %d of %d, %v", used, size, ok)
		}
		b.restart(nil)
		synctest.Wait()
		tell(quota.Usage{Bytes: 10 * mebibyte, Limit: 10 * mebibyte}, 2) // the agent before has said it
		b.r.Stop()
		synctest.Wait()
		if b.r.Disk() != "" {
			t.Error("the disk of an alloc that has ended is of interest")
		}
	})
}
