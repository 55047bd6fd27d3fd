// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package testkit

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// nextPort is the port at which the next search for free ports starts.
var nextPort atomic.Int64

// FreePorts returns n ports of 127.0.0.1 that nothing listens on and that stay free
// while a process is restarted: they are below the ports that Linux assigns to
// connections and listeners (from 32768), and below the ports that jobs get (from
// 20000).
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	const first, count = 10000, 10000
	nextPort.CompareAndSwap(0, int64(os.Getpid()*37)) // other test processes start at another port
	var out []int
	for range count {
		port := first + int(nextPort.Add(1)%count)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // another process uses it
		}
		_ = l.Close() // nothing was sent
		if out = append(out, port); len(out) == n {
			return out
		}
	}
	t.Fatalf("fewer than %d of the ports from %d on are free", n, first)
	return nil
}
