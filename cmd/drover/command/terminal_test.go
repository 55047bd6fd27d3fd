// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux || darwin

package command_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/net/websocket"
	"golang.org/x/term"

	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/core/api"
)

// terminal is a pseudo-terminal: the test types into keys, and seen returns what was
// printed.
type terminal struct {
	keys *os.File // the master
	tty  *os.File // the program's side
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	outer, inner, err := pty.Open()
	if err != nil {
		t.Skipf("this machine gives no pseudo terminal: %v", err)
	}
	t.Cleanup(func() {
		_ = inner.Close() // most tests have already closed it
		_ = outer.Close()
	})
	return &terminal{outer, inner}
}

func (x *terminal) attach(stdio *command.IO) {
	stdio.In, stdio.Out, stdio.Terminal, stdio.InTerminal = x.tty, x.tty, true, true
}

// seen closes the program's side and returns everything that was printed.
func (x *terminal) seen() string {
	_ = x.tty.Close()            // makes the read below return
	out, _ := io.ReadAll(x.keys) // on Linux the end of a pseudo-terminal is an error
	return string(out)
}

// progress configures a deployment that becomes healthy step by step.
func progress(f *fake) {
	var steps []string
	for healthy := range 4 {
		status := "running"
		if healthy == 3 {
			status = "successful"
		}
		steps = append(steps, fmt.Sprintf(`{"ID":"%s","Namespace":"default","Status":"%s","StatusDescription":"step %d","TaskGroups":{"g":{"DesiredTotal":3,"PlacedAllocs":3,"HealthyAllocs":%d}}}`, deplID, status, healthy, healthy))
	}
	f.answers["GET /v1/deployment/"+deplID] = append([]string{steps[0]}, steps...)
}

func TestADeploymentIsDrawnOverItselfOnATerminal(t *testing.T) {
	f := newFake(t, world())
	progress(f)
	x := newTerminal(t)
	r := f.at(t, x.attach, "deployment", "status", "-monitor", "-wait", "0s", "-no-color", "dddd")
	shown := x.seen()
	if r.code != 0 || strings.Count(shown, "\x1b[2A\x1b[J") != 3 {
		t.Errorf("exit code %d, drawn over %d times, want 3:\n%q\n%s", r.code, strings.Count(shown, "\x1b[2A\x1b[J"), shown, r.err)
	}
}

func TestANarrowTerminalIsDrawnOverWithoutRests(t *testing.T) {
	f := newFake(t, world())
	progress(f)
	x := newTerminal(t)
	if err := pty.Setsize(x.keys, &pty.Winsize{Rows: 24, Cols: 20}); err != nil {
		t.Fatal(err)
	}
	f.at(t, x.attach, "deployment", "status", "-monitor", "-wait", "0s", "-no-color", "dddd")
	_, drawn, _ := strings.Cut(x.seen(), "Monitoring")
	_, drawn, _ = strings.Cut(drawn, "\n")
	drawn, _, _ = strings.Cut(drawn, "==>")
	for _, line := range strings.Split(drawn, "\r\n") {
		if line = strings.TrimPrefix(line, "\x1b[2A\x1b[J"); len(line) > 19 {
			t.Errorf("a line of %d characters wraps: %q", len(line), line)
		}
	}
}

func TestNothingIsDrawnOverOnATerminalThatCannotMoveItsCursor(t *testing.T) {
	f := newFake(t, world())
	progress(f)
	x := newTerminal(t)
	r := f.at(t, func(stdio *command.IO) {
		x.attach(stdio)
		stdio.Env["TERM"] = "dumb"
	}, "deployment", "status", "-monitor", "-wait", "0s", "dddd")
	if shown := x.seen(); r.code != 0 || strings.Contains(shown, "\x1b") || strings.Count(shown, "g: desired 3") != 4 {
		t.Errorf("exit code %d:\n%q\n%s", r.code, shown, r.err)
	}
}

func TestANarrowTerminalShowsNoMoreOfWideLettersThanFit(t *testing.T) {
	f := newFake(t, world())
	f.answers["GET /v1/deployment/"+deplID] = []string{`{"ID":"` + deplID + `","Namespace":"default","Status":"successful","StatusDescription":"` + strings.Repeat("語", 30) + `","TaskGroups":{}}`}
	x := newTerminal(t)
	if err := pty.Setsize(x.keys, &pty.Winsize{Rows: 24, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	f.at(t, x.attach, "deployment", "status", "-monitor", "-wait", "0s", "-no-color", "dddd")
	if shown := x.seen(); strings.Count(shown, "語") != 11 { // 16 columns of other text, 39 in all
		t.Errorf("%q", shown)
	}
}

func TestADeploymentIsPlainLinesElsewhere(t *testing.T) {
	f := newFake(t, world())
	progress(f)
	r := f.at(t, nil, "deployment", "status", "-monitor", "-wait", "0s", "dddd")
	if r.code != 0 || strings.Contains(r.out, "\x1b") || strings.Count(r.out, "g: desired 3") != 4 {
		t.Errorf("exit code %d:\n%q\n%s", r.code, r.out, r.err)
	}
}

func TestADeploymentIsNotRedrawnForNothing(t *testing.T) {
	f := newFake(t, world())
	progress(f)
	steps := f.answers["GET /v1/deployment/"+deplID]
	f.answers["GET /v1/deployment/"+deplID] = []string{steps[0], steps[1], steps[1], steps[1], steps[4]}
	r := f.at(t, nil, "deployment", "status", "-monitor", "-wait", "0s", "dddd")
	if r.code != 0 || strings.Count(r.out, "g: desired 3") != 2 {
		t.Errorf("exit code %d:\n%s", r.code, r.out)
	}
}

// shell returns an agent whose tasks echo their input until "exit N".
func shell(t *testing.T, sizes chan<- api.TermSize) *fake {
	f := newFake(t, world())
	inner := f.Config.Handler
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/exec") {
			inner.ServeHTTP(w, r)
			return
		}
		websocket.Server{Handler: func(ws *websocket.Conn) { echo(ws, sizes) }}.ServeHTTP(w, r)
	})
	return f
}

func echo(ws *websocket.Conn, sizes chan<- api.TermSize) {
	var hello map[string]any
	if websocket.JSON.Receive(ws, &hello) != nil {
		return
	}
	say := func(o *api.ExecOutput) { _ = websocket.JSON.Send(ws, o) } // an error means that the client is gone
	say(&api.ExecOutput{Stdout: &api.ExecIO{Data: []byte("ready\n")}})
	typed := ""
	for {
		var in api.ExecInput
		if websocket.JSON.Receive(ws, &in) != nil {
			return
		}
		if in.TTYSize != nil && sizes != nil {
			sizes <- *in.TTYSize
		}
		if in.Stdin == nil {
			continue
		}
		typed += string(in.Stdin.Data)
		say(&api.ExecOutput{Stdout: &api.ExecIO{Data: []byte(fmt.Sprintf("<%x>", in.Stdin.Data))}})
		code := 0
		if _, rest, ok := strings.Cut(typed, "exit "); ok && len(rest) > 1 {
			_, _ = fmt.Sscan(rest, &code) // tests write a number
			say(&api.ExecOutput{Exited: true, Result: &api.ExecResult{ExitCode: code}})
			return
		}
		if in.Stdin.Close {
			say(&api.ExecOutput{Exited: true, Result: &api.ExecResult{}})
			return
		}
	}
}

// shownUntil reads the terminal until it has printed text.
func (x *terminal) shownUntil(t *testing.T, text string) string {
	t.Helper()
	all, buf := "", make([]byte, 4096)
	found := make(chan struct{})
	go func() {
		defer close(found)
		for !strings.Contains(all, text) {
			n, err := x.keys.Read(buf)
			if err != nil {
				return
			}
			all += string(buf[:n])
		}
	}()
	select {
	case <-found:
	case <-time.After(time.Minute):
		t.Fatalf("the terminal does not show %q", text)
	}
	return all
}

func TestExecHandsEveryKeyOnAndGivesTheTerminalBack(t *testing.T) {
	sizes := make(chan api.TermSize, 10)
	f, x := shell(t, sizes), newTerminal(t)
	if err := pty.Setsize(x.keys, &pty.Winsize{Rows: 33, Cols: 111}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(x.tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan result, 1)
	go func() { done <- f.at(t, x.attach, "alloc", "exec", "bbbb", "sh") }()
	x.shownUntil(t, "ready")
	if got := <-sizes; got != (api.TermSize{Height: 33, Width: 111}) {
		t.Errorf("the size is %+v", got)
	}
	if err := pty.Setsize(x.keys, &pty.Winsize{Rows: 44, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	// The kernel signals only the session's foreground group, so the test sends the
	// signal.
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	if got := <-sizes; got != (api.TermSize{Height: 44, Width: 80}) {
		t.Errorf("the changed size is %+v", got)
	}
	if _, err := x.keys.WriteString("\x03"); err != nil { // Ctrl-C must reach the remote command
		t.Fatal(err)
	}
	x.shownUntil(t, "<03>")
	if _, err := x.keys.WriteString("exit 42\r"); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.code != 42 {
		t.Errorf("exit code %d, want 42: %s", r.code, r.err)
	}
	after, err := term.GetState(int(x.tty.Fd()))
	if err != nil || *after != *before {
		t.Errorf("the terminal is not as it was; %v", err)
	}
}

func TestTheEscapeCharacterLeavesAHangingSession(t *testing.T) {
	f, x := shell(t, nil), newTerminal(t)
	done := make(chan result, 1)
	go func() { done <- f.at(t, x.attach, "alloc", "exec", "bbbb", "sleep", "1000") }()
	x.shownUntil(t, "ready")
	if _, err := x.keys.WriteString("\r~."); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.code != 1 || !strings.Contains(r.err, "ended with the escape character") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}

func TestAPipeNeedsNoTerminal(t *testing.T) {
	f := shell(t, nil)
	r := f.at(t, with("abc", false), "alloc", "exec", "bbbb", "cat", "-n", "--", "-x")
	if r.code != 0 || !strings.Contains(r.out, "<616263>") {
		t.Errorf("exit code %d: %q %s", r.code, r.out, r.err)
	}
	asked := strings.Join(f.asked, "\n")
	if !strings.Contains(asked, "GET /v1/allocation/"+allocID) {
		t.Errorf("asked: %s", asked)
	}
}

func TestInterruptingAMonitorEndsIt(t *testing.T) {
	f := newFake(t, world())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := f.at(t, func(stdio *command.IO) { stdio.Context = ctx }, "job", "eval", "web")
	if r.code != 130 || r.err != "Interrupted\n" {
		t.Errorf("exit code %d: %q", r.code, r.err)
	}
}
