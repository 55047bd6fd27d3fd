// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/membership"
)

func TestWhoeverSendsGarbageDoesNotChooseHowMuchIsLogged(t *testing.T) {
	var lines []string
	for i := range 500 {
		from := fmt.Sprintf("10.%d.%d.9:%d", i%250, i%200, 1000+i)
		lines = append(lines,
			fmt.Sprintf("2026/11/28 22:22:23 [ERR] memberlist: msg type (%d) not supported from=%s", i%256, from),
			fmt.Sprintf("2026/11/28 22:22:23 [WARN] memberlist: Got ping for unexpected node 'n%d' from=%s", i, from),
			fmt.Sprintf("2026/11/28 22:22:23 [ERR] memberlist: discarding packet with unacceptable label %q: from=%s", fmt.Sprintf("a\"b:c from=%d\x01", i), from),
			fmt.Sprintf("2026/11/28 22:22:23 [WARN] serf: Received message of unknown type: %d", i%256),
			fmt.Sprintf("2026/11/28 22:22:23 [ERR] memberlist: Failed to decode ping: msgpack decode error [pos %d] from=%s", i, from))
	}
	var out bytes.Buffer
	membership.Passed(hclog.New(&hclog.LoggerOptions{Output: &out}), lines...)
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("%d lines are logged of five causes:\n%s", n, out.String()[:min(out.Len(), 2000)])
	}
	out.Reset()
	lines = nil
	for i := range 500 {
		lines = append(lines, fmt.Sprintf("2026/11/28 22:22:23 [ERR] memberlist: %s", strings.Repeat("x", i)))
	}
	membership.Passed(hclog.New(&hclog.LoggerOptions{Output: &out}), lines...)
	if n := strings.Count(out.String(), "\n"); n > 64 {
		t.Errorf("%d lines are logged of messages that all differ", n)
	}
}

func TestWhatIsLeftOutOfTheLogIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		pass := membership.Passes(hclog.New(&hclog.LoggerOptions{Output: &out}))
		for range 3 {
			pass("2026/11/28 22:22:23 [ERR] memberlist: msg type (9) not supported from=10.0.0.1:1")
		}
		time.Sleep(time.Minute)
		pass("2026/11/28 22:22:23 [ERR] memberlist: msg type (7) not supported from=10.0.0.2:2")
		if !strings.Contains(out.String(), "more=2") {
			t.Errorf("the two that were left out are not counted:\n%s", out.String())
		}
	})
}
