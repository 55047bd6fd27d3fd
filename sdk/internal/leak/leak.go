// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package leak finds goroutines that the tests of a package leave behind. It is the
// SDK's own, because what a module's tests require ends up in the go.sum of every plugin.
// Only tests of the SDK import it.
package leak

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// limit is how long goroutines have to end after the last test.
const limit = 30 * time.Second

// VerifyTestMain runs the tests and exits with their code, or with 1 if they passed and
// goroutines are left. A TestMain calls it.
func VerifyTestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := await(limit); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "%d goroutines are left %s after the tests:\n\n%s\n", len(left), limit, strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// await returns the stacks of the goroutines that have not ended within the limit.
func await(limit time.Duration) []string {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		if left := others(); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// others returns the stacks of all goroutines but the calling one and those that the
// standard library keeps for a process that has asked for signals.
func others() []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for _, one := range strings.Split(strings.TrimSpace(string(buf)), "\n\n")[1:] {
		if !strings.Contains(one, "os/signal.signal_recv") && !strings.Contains(one, "os/signal.loop") && !strings.Contains(one, "runtime.ensureSigM") {
			left = append(left, one)
		}
	}
	return left
}
