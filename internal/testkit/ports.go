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

// nextPort is where the search for a free port goes on.
var nextPort atomic.Int64

// FreePorts returns n ports of 127.0.0.1 that nothing listens on and that stay free
// while a process that listens on them is started again: they lie below what Linux
// gives to connections and to listeners without a port (from 32768), and below what
// jobs get (from 20000).
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	const first, count = 10000, 10000
	nextPort.CompareAndSwap(0, int64(os.Getpid()*37)) // another process of tests begins elsewhere
	var out []int
	for range count {
		port := first + int(nextPort.Add(1)%count)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // somebody has it
		}
		_ = l.Close() // nothing was sent
		if out = append(out, port); len(out) == n {
			return out
		}
	}
	t.Fatalf("fewer than %d of the ports from %d on are free", n, first)
	return nil
}
