// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/pluginhost/process"
)

// goroutines are stacks that a crash prints after the first, far more than are kept.
var goroutines = strings.Repeat("goroutine 9 [IO wait]:\ninternal/poll.runtime_pollWait(0x7f, 0x72)\n\t/go/netpoll.go:351 +0x85\n\n", 100)

// TestACrashIsQuotedFromItsBeginning writes as go-plugin does: each line, and then its end.
func TestACrashIsQuotedFromItsBeginning(t *testing.T) {
	const log = `{"@level":"info","@message":"all is well"}` + "\n"
	panicked := "panic: a bug\n\ngoroutine 7 [running]:\nmain.start(...)\n\t/src/main.go:12\n\n" + goroutines + "exit status 2\n"
	long := strings.Repeat("main.again()\n\t/src/main.go:13 +0x1\n", 500)
	for what, c := range map[string]struct{ wrote, begins, ends string }{
		"a panic":                   {log + panicked, "panic: a bug goroutine 7 [running]: main.start(...)", "/src/main.go:12"},
		"a signal":                  {"panic: runtime error: nil\n[signal SIGSEGV: x]\n\ngoroutine 1 [running]:\nmain.main()\n\n" + goroutines, "panic: runtime error: nil [signal SIGSEGV: x] goroutine 1", "main.main()"},
		"a deadlock":                {strings.Repeat("x", 3000) + "\nfatal error: all asleep\n\ngoroutine 1 [select]:\nmain.main()\n\n" + goroutines, "fatal error: all asleep goroutine 1 [select]:", "main.main()"},
		"a long stack":              {"panic: deep\n\ngoroutine 1 [running]:\n" + long, "panic: deep goroutine 1 [running]: main.again()", ""},
		"a panic without stacks":    {"panic: short\n", "panic: short", "panic: short"},
		"a last line":               {log + "no such daemon\n", "no such daemon", "no such daemon"},
		"a log line after a panic":  {"panic: not ours\n" + log + "no such daemon\n", "no such daemon", "no such daemon"},
		"a panic in a line":         {"it said panic: no\n", "it said panic: no", "it said panic: no"},
		"a panic with terminal art": {"panic: \x1b[31mred\n", `panic: \x1b[31mred`, ""},
	} {
		var tail process.Tail
		for line := range strings.Lines(c.wrote) {
			body, _ := strings.CutSuffix(line, "\n")
			_, _ = fmt.Fprint(&tail, body)
			_, _ = fmt.Fprint(&tail, "\n")
		}
		got := tail.LastWords()
		if !strings.HasPrefix(got, c.begins) || !strings.HasSuffix(got, c.ends) || len(got) > 1100 {
			t.Errorf("%s: %q (%d bytes), want %q ... %q", what, got, len(got), c.begins, c.ends)
		}
		if said := tail.String(); strings.HasPrefix(c.begins, "panic:") && !strings.HasPrefix(said, c.begins) {
			t.Errorf("%s, before the handshake: %q", what, said)
		}
	}
}
