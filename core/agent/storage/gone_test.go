// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// withoutDriver has a test go on when the driver of volumes is gone.
func withoutDriver(t *testing.T, prepare func(b *bed) *storage.Mount, then func(t *testing.T, b *bed, m *storage.Mount)) {
	with(t, func(t *testing.T, b *bed) {
		end := b.k.Begin(b.driver("driver", model.CSIPluginMonolith))
		synctest.Wait()
		m := prepare(b)
		end(true)
		b.bury("driver")
		synctest.Wait()
		then(t, b, m)
	})
}

func brought(b *bed) *storage.Mount {
	m := b.claimed("a1", "data")
	b.bring(m)
	return m
}

func TestWhatIsNotMountedNeedsNoDriverToTakeItBack(t *testing.T) {
	withoutDriver(t, brought, func(t *testing.T, b *bed, m *storage.Mount) {
		if _, err := b.k.Call(t.Context(), rpc.MethodCSIRelease, rpc.StorageCall{Plugin: "disk", ID: "ext-data"}); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "a1") {
			t.Errorf("release of what an alloc has: %v", err)
		}
		b.take(m)
		if _, err := b.k.Call(t.Context(), rpc.MethodCSIRelease, rpc.StorageCall{Plugin: "disk", ID: "ext-data"}); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

// isMounted reports whether a path is on another file system than its directory.
func isMounted(t *testing.T, path string) bool {
	body, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(body), " "+path+" ")
}

func TestTheNodeUnmountsWhatADriverHasLeftThatIsGone(t *testing.T) {
	if os.Geteuid() != 0 || !canMount {
		t.Skip("mounts need root")
	}
	prepare := func(b *bed) *storage.Mount {
		m := brought(b)
		for _, path := range []string{m.Staging, m.Target} {
			if err := os.MkdirAll(path, 0o700); err != nil {
				b.t.Fatal(err)
			}
			if err := mount(path); err != nil {
				b.t.Skipf("no mounts here: %v", err)
			}
			b.t.Cleanup(func() { unmount(path) })
		}
		return m
	}
	withoutDriver(t, prepare, func(t *testing.T, b *bed, m *storage.Mount) {
		if err := b.k.Unpublish(t.Context(), m); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "the node unmounts "+m.Target+" itself in 5m0s") {
			t.Errorf("at once: %v", err)
		}
		time.Sleep(6 * time.Minute)
		if !isMounted(t, m.Target) {
			t.Error("what an alloc has was unmounted")
		}
		b.take(m)
		if isMounted(t, m.Target) || isMounted(t, m.Staging) {
			t.Error("it was not unmounted")
		}
	})
	// An alloc that nobody knows any more, and nobody asks.
	withoutDriver(t, prepare, func(t *testing.T, b *bed, m *storage.Mount) {
		b.close()
		b.open()
		b.bury("a1")
		time.Sleep(7 * time.Minute)
		synctest.Wait()
		if isMounted(t, m.Target) || isMounted(t, m.Staging) {
			t.Error("it was not unmounted")
		}
		if _, err := os.Stat(filepath.Dir(m.Target)); !os.IsNotExist(err) {
			t.Errorf("the directory of the alloc is left: %v", err)
		}
	})
}

func TestASecondWriterOfANodeWaitsForTheFirst(t *testing.T) {
	running(t, func(t *testing.T, b *bed, p *fakePlugin) {
		one, two := b.claimed("a1", "data"), b.claimed("a2", "data") // the servers have lost sight of the first
		b.bring(one)
		done := make(chan error, 1)
		go func() { done <- b.k.Publish(t.Context(), two) }()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(done) > 0 || len(p.has["ext-data"].TargetPaths) != 1 {
			t.Fatalf("published at %v, %d answers", p.has["ext-data"].TargetPaths, len(done))
		}
		b.take(one)
		if err := <-done; err != nil || len(p.has["ext-data"].TargetPaths) != 1 || p.has["ext-data"].TargetPaths[0] != two.Target {
			t.Errorf("then: %v, %+v", err, p.has["ext-data"])
		}
	})
}
