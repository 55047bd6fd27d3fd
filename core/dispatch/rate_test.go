// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/model"
)

func TestLeasesGetLongerWithTheNumberOfNodesWhereBeatsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		for i := range 20 {
			s.register(t, fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
		}
		lease, err := s.Beat(ctx, identity("00000000-0000-0000-0000-000000000000"))
		if err != nil || !nearly(lease.TTL, 30*time.Second) { // 20 nodes that beat three times in it: 2 a second
			t.Fatalf("a lease of %s, %v; want 30s", lease.TTL, err)
		}
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if got := s.store.View().NodeByID("00000000-0000-0000-0000-000000000000").Status; got == model.NodeStatusDown {
			t.Error("a node is down within the lease that it was given")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := s.store.View().NodeByID("00000000-0000-0000-0000-000000000000").Status; got != model.NodeStatusDown {
			t.Errorf("a node that was silent for longer than its lease is %s", got)
		}
	}, func(cfg *dispatch.Config) { cfg.MaxBeats = 2 })
}

// nearly reports whether a lease is one of the given length or up to a fortieth shorter.
func nearly(lease, want time.Duration) bool { return lease <= want && lease > want*39/40 }

// A server that answers thousands of nodes one by one spends most of its time on waking up.
func TestNodesSendTheirHeartbeatsAtFewMoments(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		const nodes = 50
		moments, leases := map[time.Duration]int{}, 0
		var all sync.WaitGroup
		var mu sync.Mutex
		start := time.Now()
		for i := range nodes {
			id := fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
			time.Sleep(time.Duration(7+i%13) * time.Millisecond) // they come at any time
			s.register(t, id)
			all.Go(func() {
				for range 6 {
					lease, err := s.Beat(ctx, identity(id))
					if err != nil || !nearly(lease.TTL, 8*time.Second) {
						t.Errorf("a lease of %s, %v", lease.TTL, err)
						return
					}
					time.Sleep(lease.BeatAfter())
					mu.Lock()
					moments[time.Since(start).Round(time.Millisecond)]++
					leases++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if leases != 6*nodes || len(moments) > leases/6 {
			t.Errorf("%d heartbeats at %d moments", leases, len(moments))
		}
	})
}

func TestFewNodesBeatAsOftenAsEverWhereBeatsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		if lease, err := s.Beat(ctx, identity(idN1)); err != nil || !nearly(lease.TTL, 8*time.Second) {
			t.Errorf("a lease of %s, %v; want 8s", lease.TTL, err)
		}
	}, func(cfg *dispatch.Config) { cfg.MaxBeats = 50 })
}

func TestANewLeaderWaitsForNodesAsLongAsItIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		s.sleep(time.Minute) // a late look begins anew, as a new leader does
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if got := s.store.View().NodeByID(idN1).Status; got == model.NodeStatusDown {
			t.Error("a node is down before failover_heartbeat_ttl is over")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := s.store.View().NodeByID(idN1).Status; got != model.NodeStatusDown {
			t.Errorf("a node that was never heard of is %s", got)
		}
	}, func(cfg *dispatch.Config) { cfg.FailoverTTL = 5 * time.Minute })
}
