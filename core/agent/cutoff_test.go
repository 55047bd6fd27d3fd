// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent"
	"github.com/drover-project/drover/core/agent/local"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// remote are servers that can be cut off.
type remote struct {
	*fakeServers
	gone atomic.Bool
}

var errGone = errdefs.Unavailablef("no route to the servers")

func (r *remote) lease(l rpc.Lease, err error) (rpc.Lease, error) {
	if r.gone.Load() {
		return rpc.Lease{}, errGone
	}
	l.TTL = 300 * time.Millisecond
	return l, err
}

func (r *remote) Register(ctx context.Context, n *model.Node) (rpc.Lease, error) {
	if r.gone.Load() {
		return rpc.Lease{}, errGone
	}
	return r.lease(r.fakeServers.Register(ctx, n))
}

func (r *remote) Beat(ctx context.Context, id rpc.Identity) (rpc.Lease, error) {
	return r.lease(r.fakeServers.Beat(ctx, id))
}

func (r *remote) UpdateAllocs(ctx context.Context, id rpc.Identity, reports []*model.AllocReport) (rpc.UpdateAnswer, error) {
	if r.gone.Load() {
		return rpc.UpdateAnswer{}, errGone
	}
	return r.fakeServers.UpdateAllocs(ctx, id, reports)
}

func remoteBed(t *testing.T) (*bed, *remote) {
	r := &remote{}
	b := newBedWith(t, func(cfg *agent.Config) {
		r.fakeServers, cfg.Servers, cfg.RetryMax = cfg.Servers.(*fakeServers), r, 50*time.Millisecond
	})
	return b, r
}

func stopping(id string, after time.Duration) *model.Allocation {
	a := newAlloc(id, newTask("t-"+id))
	a.Job.TaskGroups[0].Disconnect = &model.DisconnectStrategy{StopOnClientAfter: &after}
	return a
}

func TestANodeThatHasLostItsServersStopsAllocsOfGroupsThatSaySo(t *testing.T) {
	b, servers := remoteBed(t)
	servers.assign(stopping("a1", 3*time.Second))
	servers.assign(newAlloc("a2", newTask("t2")))
	b.status("a1", "running")
	b.status("a2", "running")
	servers.gone.Store(true)
	b.eventually("a1 to end", func() bool { return b.driver.running() == 1 })
	servers.gone.Store(false)
	b.status("a1", "failed")
	if got := displays(servers.report("a1"), "t-a1"); !strings.Contains(got, "The node has lost its servers for the stop_on_client_after of 3s") {
		t.Errorf("events of the task: %s", got)
	}
	if got := servers.report("a2").ClientStatus; got != "running" {
		t.Errorf("an alloc without a limit is %s", got)
	}
}

func TestTheTimeWithoutServersCountsOverARestartOfTheAgent(t *testing.T) {
	for _, back := range []bool{false, true} {
		b, servers := remoteBed(t)
		servers.assign(stopping("a1", time.Hour))
		b.status("a1", "running")
		b.close()
		store, err := local.Open(filepath.Join(b.dir, "state"), hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		if saved, err := store.Get(t.Context(), "servers-heard"); err != nil || len(saved) == 0 {
			t.Fatalf("what was written down: %q, %v", saved, err)
		}
		long, err := json.Marshal(time.Now().Add(-2 * time.Hour)) // as if the agent had been away for so long
		if err == nil {
			err = store.Put(t.Context(), "servers-heard", long)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		before := len(servers.nodes)
		servers.gone.Store(!back)
		b.start()
		if back { // they say themselves what is to become of it
			b.eventually("the node to register", func() bool {
				servers.mu.Lock()
				defer servers.mu.Unlock()
				return len(servers.nodes) > before && servers.beats > 3
			})
			if b.driver.running() != 1 {
				t.Error("the alloc was stopped although the servers were there")
			}
			continue
		}
		b.eventually("the alloc to end", func() bool { return b.driver.running() == 0 })
	}
}
