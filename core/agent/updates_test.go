// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// with reads or changes the servers while nothing is asked of them.
func (s *fakeServers) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (b *bed) batch(id string) {
	b.t.Helper()
	a := newAlloc(id, newTask(id))
	a.Job.Type = "batch"
	b.servers.assign(a)
	b.eventually(id+" runs", func() bool { return b.driver.end(id, driver.ExitResult{}) })
}

func TestAnAgentThatStartsAgainTellsServersNothingThatTheyKnow(t *testing.T) {
	b := newBedWith(t, nil)
	for i := range 2 {
		b.batch(fmt.Sprint("a", i))
		b.status(fmt.Sprint("a", i), "complete")
	}
	b.close()
	b.servers.with(func() { b.servers.sent = nil })
	b.start()
	b.batch("probe")
	b.status("probe", "complete")
	b.servers.with(func() {
		if slices.ContainsFunc(b.servers.sent, func(id string) bool { return id != "probe" }) {
			t.Errorf("reported anew: %v", b.servers.sent)
		}
	})
}

func TestARefusalBecauseTheNodeIsNotReadyIsAnsweredByABeat(t *testing.T) {
	b := newBed(t)
	b.servers.with(func() { b.servers.refusal = errdefs.FailedPreconditionf("the node is down") })
	before := time.Now()
	b.batch("a1")
	b.status("a1", "complete")
	b.servers.with(func() {
		if b.servers.beats == 0 || len(b.servers.nodes) != 1 {
			t.Errorf("%d beats, %d registrations", b.servers.beats, len(b.servers.nodes))
		}
	})
	t.Logf("reported after %s", time.Since(before))
}

func TestOtherRefusalsNeitherRegisterTheNodeNorBeat(t *testing.T) {
	b := newBed(t)
	b.servers.with(func() { b.servers.refusal = errdefs.PermissionDeniedf("no") })
	b.batch("a1")
	b.eventually("it is tried again", func() (more bool) {
		b.servers.with(func() { more = len(b.servers.sent) > 2 })
		return more
	})
	b.servers.with(func() {
		if b.servers.beats != 0 || len(b.servers.nodes) != 1 {
			t.Errorf("%d beats, %d registrations", b.servers.beats, len(b.servers.nodes))
		}
	})
}

func TestAnAllocIsKeptUntilServersKnowItsEnd(t *testing.T) {
	b := newBed(t)
	b.servers.with(func() { b.servers.refusal = errdefs.Unavailablef("no leader") })
	b.batch("a1")
	b.eventually("its end is told", func() (told bool) {
		b.servers.with(func() { told = len(b.servers.sent) > 0 })
		return told && b.driver.running() == 0
	})
	if _, err := ask[any](t, b, rpc.MethodCollect, nil); err != nil || b.dirs() != 1 {
		t.Fatalf("%d directories: %v", b.dirs(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rpc.Ask[any](ctx, b.agent, rpc.MethodAllocGC, rpc.AllocRequest{AllocID: "a1"}); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("collected while servers think that it runs: %v", err)
	}
	b.servers.with(func() { b.servers.refusal = nil })
	if _, err := ask[any](t, b, rpc.MethodAllocGC, rpc.AllocRequest{AllocID: "a1"}); err != nil || b.dirs() != 0 {
		t.Errorf("%d directories: %v", b.dirs(), err)
	}
}
