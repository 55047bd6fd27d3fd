// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
)

// tail keeps the end of a plugin's stderr, for the error that explains why it did not
// start or why it ended. Of a crash of the Go runtime it keeps the beginning, which has the
// reason: the end has the stacks of goroutines that have nothing to do with it.
type tail struct {
	mu      sync.Mutex
	buf     []byte
	crashed bool // buf begins with the crash
}

const tailSize = 1024

// Write implements io.Writer. go-plugin writes line by line.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begins := len(t.buf) == 0 || t.buf[len(t.buf)-1] == '\n'
	switch {
	case begins && crashes(p) && !t.crashed:
		t.buf, t.crashed = t.buf[:0], true
	case begins && bytes.HasPrefix(p, []byte("{")):
		t.crashed = false // the process logs: it has not crashed, and only wrote of a crash
	}
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 && t.crashed {
		t.buf = t.buf[:tailSize]
	} else if over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// crashes reports whether a line is the first of a crash of the Go runtime.
func crashes(line []byte) bool {
	return bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: "))
}

// crash returns the reason of a crash with the first stack.
func (t *tail) crash() string {
	why, stacks, found := strings.Cut(string(t.buf), "\n\ngoroutine ")
	if !found {
		return why
	}
	first, _, _ := strings.Cut(stacks, "\n\n")
	return why + "\ngoroutine " + first
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := string(t.buf)
	if t.crashed {
		said = t.crash()
	}
	return plain(strings.Join(strings.Fields(said), " "))
}

// lastWords returns a crash, or the lines at the end that are not log lines.
func (t *tail) lastWords() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.crashed {
		return plain(strings.Join(strings.Fields(t.crash()), " "))
	}
	var words []string
	for line := range bytes.Lines(t.buf) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '{' {
			words = nil
			continue
		}
		words = append(words, string(line))
	}
	return plain(strings.Join(words, " "))
}

// Limits of what a plugin may write to the agent's log: burst, lines per second, and
// bytes per line.
const (
	logBurst   = 1000
	logRate    = 200
	maxLogText = 4 << 10
)

// plainLogger keeps a plugin from flooding the agent's log. It counts dropped lines.
type plainLogger struct {
	hclog.Logger
	flood *flood
}

// flood is shared by the loggers of one plugin process.
type flood struct {
	pace *rate.Limiter
	tell func(dropped int)

	mu      sync.Mutex
	dropped int // since it was last told
}

func newPlainLogger(log hclog.Logger) hclog.Logger {
	f := &flood{pace: rate.NewLimiter(logRate, logBurst)}
	f.tell = func(dropped int) {
		log.Warn("log lines of the plugin were dropped: it writes too many", "lines", dropped, "lines_per_second", logRate)
	}
	return &plainLogger{Logger: log, flood: f}
}

// pass reports whether a line may be written now.
func (f *flood) pass() bool {
	if f.pace.Allow() {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropped++; f.dropped == 1 {
		time.AfterFunc(time.Second, f.report)
	}
	return false
}

func (f *flood) report() {
	f.mu.Lock()
	n := f.dropped
	f.dropped = 0
	f.mu.Unlock()
	f.tell(n)
}

// Log implements hclog.Logger.
func (l *plainLogger) Log(level hclog.Level, msg string, args ...any) {
	if level < l.GetLevel() || !l.flood.pass() {
		return
	}
	for i, a := range args {
		switch a := a.(type) {
		case nil, bool, int, float64:
		case string:
			args[i] = cutText(a)
		default: // a list or an object of a line in JSON
			args[i] = cutText(fmt.Sprint(a))
		}
	}
	l.Logger.Log(level, cutText(msg), args...)
}

func cutText(s string) string {
	if len(s) <= maxLogText {
		return plain(s)
	}
	end := maxLogText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes more)", plain(s[:end]), len(s)-end)
}

// Trace and the others implement hclog.Logger.
func (l *plainLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug implements hclog.Logger.
func (l *plainLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info implements hclog.Logger.
func (l *plainLogger) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn implements hclog.Logger.
func (l *plainLogger) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error implements hclog.Logger.
func (l *plainLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// Named implements hclog.Logger. go-plugin would add the name of the file, which
// is the plugin's, to a logger that has it already.
func (l *plainLogger) Named(string) hclog.Logger { return l }

// With implements hclog.Logger.
func (l *plainLogger) With(args ...any) hclog.Logger {
	return &plainLogger{Logger: l.Logger.With(args...), flood: l.flood}
}
