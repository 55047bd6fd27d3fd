// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// running is a bed with a driver.
func running(t *testing.T, do func(t *testing.T, b *bed, p *fakePlugin)) {
	with(t, func(t *testing.T, b *bed) {
		b.k.Begin(b.driver("driver", model.CSIPluginMonolith))
		synctest.Wait()
		do(t, b, b.host.plugins["disk"])
	})
}

func (b *bed) claimed(allocID, request string) *storage.Mount {
	b.t.Helper()
	m, err := b.k.Claim(b.t.Context(), allocID, request, func(string) {})
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// bring does all steps of an alloc.
func (b *bed) bring(m *storage.Mount) {
	b.t.Helper()
	b.do("bring", m, b.k.Stage, b.k.Publish)
}

func (b *bed) take(m *storage.Mount) {
	b.t.Helper()
	b.do("take back", m, b.k.Unpublish, b.k.Unstage)
}

func (b *bed) do(what string, m *storage.Mount, steps ...func(context.Context, *storage.Mount) error) {
	b.t.Helper()
	for _, step := range steps {
		if err := step(b.t.Context(), m); err != nil {
			b.t.Fatalf("%s %s: %v", what, m.Request, err)
		}
	}
}

func TestAVolumeIsUnstagedWithItsLastAlloc(t *testing.T) {
	running(t, func(_ *testing.T, b *bed, p *fakePlugin) {
		one, two := b.claimed("a1", "data"), b.claimed("a2", "data")
		b.bring(one)
		b.do("stage", two, b.k.Stage)
		b.take(one)
		b.wants("while another alloc prepares it", p.log(), "stage ext-data, publish ext-data, stage ext-data, unpublish ext-data")
		b.do("publish", two, b.k.Publish)
		b.take(two)
		b.wants("with the last", p.log(), "publish ext-data, unpublish ext-data, unstage ext-data")
		b.take(two)
		b.wants("again", p.log(), "unpublish ext-data")
	})
}

// A driver forgets, and nothing is asked of it that it has done.
func TestAVolumeIsStagedOnceAndAgainWhenItsDriverHasForgotten(t *testing.T) {
	running(t, func(_ *testing.T, b *bed, p *fakePlugin) {
		m := b.claimed("a1", "data")
		b.bring(m)
		b.wants("at first", p.log(), "stage ext-data, publish ext-data")
		p.mu.Lock()
		delete(p.has, "ext-data")
		p.mu.Unlock()
		b.do("publish", m, b.k.Publish)
		b.wants("forgotten", p.log(), "publish ext-data, stage ext-data, publish ext-data")
		b.take(m)
		p.log()
		b.do("publish", m, b.k.Publish)
		b.wants("after it was unstaged", p.log(), "stage ext-data, publish ext-data")
	})
}

func TestClaimsAreRepeatedUntilTheyAreGranted(t *testing.T) {
	running(t, func(t *testing.T, b *bed, _ *fakePlugin) {
		b.refuses = errdefs.Unavailablef("node n2 has it")
		var waits []string
		got := make(chan *storage.Mount, 1)
		go func() {
			m, err := b.k.Claim(t.Context(), "a1", "data", func(s string) { waits = append(waits, s) })
			if err != nil {
				t.Error(err)
			}
			got <- m
		}()
		time.Sleep(time.Minute)
		b.mu.Lock()
		b.refuses = nil
		b.mu.Unlock()
		if m := <-got; m == nil || m.ExternalID != "ext-data" || !strings.HasPrefix(m.Target, filepath.Join(b.cfg.Dir, "node", "disk", "per-alloc", "a1")) {
			t.Errorf("mount %+v", m)
		}
		if len(waits) < 10 || len(waits) > 40 || !strings.Contains(waits[0], "node n2 has it") {
			t.Errorf("%d reasons: %q", len(waits), waits)
		}
		for _, final := range []error{errdefs.InvalidArgumentf("never"), errdefs.PermissionDeniedf("not yours"), errdefs.Unimplementedf("old")} {
			b.refuses = final
			if _, err := b.k.Claim(t.Context(), "a1", "data", func(string) {}); err == nil || !strings.Contains(err.Error(), final.Error()) || errdefs.IsUnavailable(err) {
				t.Errorf("%v: %v", final, err)
			}
		}
		b.refuses = errdefs.Unavailablef("node n2 has it")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.k.Claim(ctx, "a1", "data", func(string) {}); !errdefs.IsUnavailable(err) {
			t.Errorf("when nobody waits any more: %v", err)
		}
	})
}

func TestCallsWaitForAPluginThatIsAway(t *testing.T) {
	running(t, func(t *testing.T, b *bed, p *fakePlugin) {
		m := b.claimed("a1", "data")
		b.host.says("disk", func(f *pluginhost.VolumeFingerprint) { f.Problem = "the driver is away" })
		done := make(chan error, 1)
		go func() { done <- b.k.Stage(t.Context(), m) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(done) > 0 || p.log() != "" {
			t.Fatal("the plugin was asked though its driver is away")
		}
		b.host.says("disk", func(f *pluginhost.VolumeFingerprint) { f.Problem = "" })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		p.answer = func(string) error { return errdefs.FailedPreconditionf("the disk is broken") }
		if err := b.k.Publish(t.Context(), m); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), `volume "data"`) {
			t.Errorf("an error that stays: %v", err)
		}
	})
}

func TestAfterARestartOfTheAgentVolumesAreClaimedAgainAndKept(t *testing.T) {
	running(t, func(_ *testing.T, b *bed, p *fakePlugin) {
		m := b.claimed("a1", "data")
		b.bring(m)
		p.log()
		b.close()
		b.open()
		b.k.Keep(m)
		b.k.Begin(b.driver("driver", model.CSIPluginMonolith))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		b.wants("what the agent does", p.log(), "")
		claims := b.claims
		b.do("publish", m, b.k.Publish)
		b.wants("before a start of a task", p.log(), "stage ext-data, publish ext-data")
		if b.claims != claims+1 {
			t := b.t
			t.Errorf("%d claims", b.claims-claims)
		}
		b.take(m)
		b.wants("at the end", p.log(), "unpublish ext-data, unstage ext-data")
	})
}

func TestWhatBelongsToNoAllocIsTakenBack(t *testing.T) {
	running(t, func(t *testing.T, b *bed, p *fakePlugin) {
		kept, lost, half := b.claimed("a1", "data"), b.claimed("a2", "other"), b.claimed("a3", "half")
		b.bring(kept)
		b.bring(lost)
		b.do("stage", half, b.k.Stage)
		foreign := &volume.Publication{ID: "theirs", StagingPath: "/elsewhere", TargetPaths: []string{"/elsewhere/too"}}
		p.has["theirs"] = foreign
		p.log()
		b.close() // which loses what it knows
		b.open()
		b.k.Keep(kept)
		b.bury("a2")
		b.k.Begin(b.driver("driver", model.CSIPluginMonolith))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		b.wants("what the agent does", p.log(), "unstage ext-half, unpublish ext-other, unstage ext-other")
		if len(p.has) != 2 || len(p.has["ext-data"].TargetPaths) != 1 || p.has["theirs"] != foreign {
			t.Errorf("left: %v", p.has)
		}
	})
}

func TestServersCallPluginsOfTheNode(t *testing.T) {
	running(t, func(t *testing.T, b *bed, p *fakePlugin) {
		call := func(method string, q rpc.StorageCall) (any, error) {
			if q.Plugin == "" {
				q.Plugin = "disk"
			}
			return b.k.Call(t.Context(), method, q)
		}
		got, err := call(rpc.MethodCSICreate, rpc.StorageCall{Name: "data"})
		if d, ok := got.(*volume.Description); err != nil || !ok || d.ID != "ext-data" {
			t.Fatalf("create: %v, %v", got, err)
		}
		if got, err := call(rpc.MethodCSIDelete, rpc.StorageCall{ID: "ext-data"}); err != nil || got != nil {
			t.Errorf("delete: %v, %v", got, err)
		}
		m := b.claimed("a1", "data")
		b.bring(m)
		p.log()
		if _, err := call(rpc.MethodCSIRelease, rpc.StorageCall{ID: "ext-data"}); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "a1") {
			t.Errorf("release of what is in use: %v", err)
		}
		b.do("forget", m, func(context.Context, *storage.Mount) error { b.gone["a1"] = true; return nil })
		if err := b.k.Unstage(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if _, err := call(rpc.MethodCSIRelease, rpc.StorageCall{ID: "ext-data"}); err != nil {
			t.Errorf("release: %v", err)
		}
		b.wants("release", p.log(), "unpublish ext-data, unstage ext-data")
		for what, q := range map[string]rpc.StorageCall{rpc.MethodCSICreate: {Plugin: "none"}, "csi.unknown": {}, rpc.MethodCSIAttach: {Plugin: "other"}} {
			if _, err := call(what, q); !errdefs.IsNotFound(err) && !errdefs.IsUnimplemented(err) {
				t.Errorf("%s of %q: %v", what, q.Plugin, err)
			}
		}
		for _, method := range []string{rpc.MethodCSIRelease, rpc.MethodCSINodeExpand} {
			if _, err := call(method, rpc.StorageCall{Plugin: "none", ID: "x"}); err != nil {
				t.Errorf("%s on a node that has nothing of it: %v", method, err)
			}
		}
	})
}
