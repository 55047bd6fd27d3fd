// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestTheServersBehindTheNameOfAServiceAreTriedAndALeftOneIsNotFoundAgainByItsAddress(t *testing.T) {
	const service = "_drover._tcp.example.com"
	dns := testkit.NewDNS(t)
	one, two := &numbered{number: 1}, &numbered{number: 2}
	first, second := serve(t, one), serve(t, two)
	named := func(address string) string { return strings.Replace(address, "127.0.0.1", "localhost", 1) }
	dns.Set(service, "localhost:1", named(first)) // nobody is at the first
	c, err := rpc.DialAny([]string{service}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := beatOf(t, c); got != 1 || !slices.Equal(c.Known(), []string{service}) {
		t.Fatalf("server %d, known %v", got, c.Known())
	}
	one.others = []string{first, second}
	beatOf(t, c)
	if !c.Leave() {
		t.Fatal("it does not leave the server behind the name")
	}
	if got := beatOf(t, c); got != 2 || len(c.Known()) != 3 {
		t.Errorf("it is with server %d after it has left the first, and knows %v", got, c.Known())
	}
	dns.Set(service, named(second))
	if err := c.SetServers([]string{service}); err != nil || beatOf(t, c) != 2 {
		t.Errorf("the name leads to the second server now: %v", err)
	}
	if err := c.SetServers([]string{service + ":4647"}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("the name of a service with a port: %v", err)
	}
}
