// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/miekg/dns"

	names "github.com/drover-project/drover/core/agent/dns"
)

// counting is a Source that knows how many questions wait.
type counting struct {
	world   *world
	waiting atomic.Int64
}

// Instances implements names.Source.
func (c *counting) Instances(ctx context.Context, namespace, service string, since uint64, wait time.Duration) (names.Answer, error) {
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	return c.world.Instances(ctx, namespace, service, since, wait)
}

// asked answers without a network.
func asked(s *names.Server, name string) *dns.Msg { return askedFrom(s, name, "127.0.0.1:40000") }

func askedFrom(s *names.Server, name, client string) *dns.Msg {
	w := &recorder{from: client}
	s.ServeDNS(w, new(dns.Msg).SetQuestion(name, dns.TypeA))
	return w.got
}

func TestNamesAreFollowedOnlyAsLongAsSomebodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &counting{world: newWorld()}
		s := names.New(names.Config{
			Domain: "service.drover", Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Source: source,
			NamespaceOf: func(netip.Addr) string { return "" }, Now: time.Now, Logger: hclog.NewNullLogger(),
		})
		defer s.Close()
		asked(s, "web.service.drover.")
		asked(s, "none.service.drover.")
		synctest.Wait()
		if n := source.waiting.Load(); n != 2 {
			t.Fatalf("%d services are followed", n)
		}
		time.Sleep(30 * time.Second) // of the bubble's clock
		synctest.Wait()
		if n := source.waiting.Load(); n != 1 {
			t.Errorf("half a minute later %d services are followed, and one of them does not exist", n)
		}
		before := source.world.asked.Load()
		if got := asked(s, "web.service.drover."); len(got.Answer) != 2 {
			t.Errorf("%s", got)
		}
		if source.world.asked.Load() != before {
			t.Error("a service that is followed was asked for again")
		}
		time.Sleep(7 * time.Minute)
		synctest.Wait()
		if n := source.waiting.Load(); n != 0 {
			t.Errorf("%d services are followed though nobody asks", n)
		}
	})
}

func TestAFloodOfNamesCostsServersLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &counting{world: newWorld()}
		s := names.New(names.Config{
			Domain: "service.drover", Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Source: source,
			NamespaceOf: func(netip.Addr) string { return "" }, Now: time.Now, Logger: hclog.NewNullLogger(),
		})
		defer s.Close()
		asked(s, "web.service.drover.")
		failed := 0
		for i := range 5000 {
			if asked(s, fmt.Sprintf("x%d.service.drover.", i)).Rcode == dns.RcodeServerFailure {
				failed++
			}
		}
		if n := source.world.asked.Load(); n > 1200 || failed < 4000 {
			t.Errorf("5000 names cost %d requests, and %d were not answered", n, failed)
		}
		if got := asked(s, "web.service.drover."); len(got.Answer) != 2 {
			t.Errorf("a service that was followed before: %s", got)
		}
		for i := range 3000 { // slower than the limit
			time.Sleep(20 * time.Millisecond)
			asked(s, "web.service.drover.")
			asked(s, fmt.Sprintf("y%d.service.drover.", i))
		}
		synctest.Wait()
		if n := source.waiting.Load(); n > 2000 {
			t.Errorf("%d services are followed", n)
		}
	})
}

func TestAClientThatFloodsWithNamesLeavesOthersTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := names.New(names.Config{
			Domain: "service.drover", Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Source: newWorld(),
			NamespaceOf: func(netip.Addr) string { return "" }, Now: time.Now, Logger: hclog.NewNullLogger(),
		})
		defer s.Close()
		for i := range 3000 {
			asked(s, fmt.Sprintf("x%d.service.drover.", i))
		}
		if got := askedFrom(s, "web.service.drover.", "127.0.0.2:40000"); len(got.Answer) != 2 {
			t.Errorf("another client that asks for a service first: %s", got)
		}
	})
}
