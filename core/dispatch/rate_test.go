// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"fmt"
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
		if err != nil || lease.TTL != 30*time.Second { // 20 nodes that beat three times in it: 2 a second
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

func TestFewNodesBeatAsOftenAsEverWhereBeatsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.register(t, idN1)
		if lease, err := s.Beat(ctx, identity(idN1)); err != nil || lease.TTL != 8*time.Second {
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
