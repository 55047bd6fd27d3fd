// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
)

// output is the destination of one process's output.
type output struct {
	logger *stderrLogger // for go-plugin, which reads stderr with it
	tail   *tail
	stdout *printed
	stderr *printed // standard error of a process that writes to os.Stderr after Serve
	stacks *stacks
}

func newOutput(l *Launcher, name string) *output {
	log := newPlainLogger(l.said.next(name, l.cfg.Logger.Named(name)))
	kept := &stacks{path: filepath.Join(l.stateDir, "stacks", filepath.Base(name)+".txt"), log: log}
	return &output{
		logger: &stderrLogger{Logger: log, stacks: kept}, tail: &tail{}, stacks: kept,
		stdout: &printed{log: log, from: "stdout", stacks: kept}, stderr: &printed{log: log, from: "stderr", stacks: kept},
	}
}

func (o *output) stacksFile() string {
	o.stacks.mu.Lock()
	defer o.stacks.mu.Unlock()
	return o.stacks.written
}

// printed logs the lines that a plugin prints.
type printed struct {
	log    hclog.Logger
	from   string
	stacks *stacks

	mu   sync.Mutex
	line []byte // without an end so far
	cut  bool   // the rest of the line is dropped
}

// Write implements io.Writer. It returns no error.
func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range bytes.Lines(b) {
		body, ended := bytes.CutSuffix(line, []byte("\n"))
		if room := maxLogText - len(p.line); !p.cut && len(body) > room {
			body, p.cut = body[:room], true
			p.line = append(p.line, body...)
		} else if !p.cut {
			p.line = append(p.line, body...)
		}
		if ended {
			p.say(string(bytes.TrimRight(p.line, "\r")))
			p.line, p.cut = p.line[:0], false
		}
	}
	return len(b), nil
}

// say logs one line: with its level and values if it has the form of hclog, in which
// plugin.Logger writes.
func (p *printed) say(line string) {
	if line == "" || p.stacks.take(line) {
		return
	}
	entry := map[string]any{}
	if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &entry) == nil {
		if message, ok := entry["@message"].(string); ok {
			level, _ := entry["@level"].(string)
			var values []any
			for _, key := range slices.Sorted(maps.Keys(entry)) {
				if !strings.HasPrefix(key, "@") {
					values = append(values, key, entry[key])
				}
			}
			p.log.Log(max(hclog.LevelFromString(level), hclog.Trace), message, values...)
			return
		}
	}
	p.log.Info(line, "from", p.from)
}

// stderrLogger is the logger with which go-plugin logs what a process writes to its
// standard error. go-plugin logs a line without the form of hclog at level debug and
// without values.
type stderrLogger struct {
	hclog.Logger
	stacks *stacks
	lines  bool        // it is the one for lines, and not that for go-plugin's own messages
	killed atomic.Bool // the host has killed the process, so its end is no error
}

// Named implements hclog.Logger: go-plugin names the logger for lines.
func (l *stderrLogger) Named(string) hclog.Logger {
	return &stderrLogger{Logger: l.Logger, stacks: l.stacks, lines: true}
}

// Debug implements hclog.Logger.
func (l *stderrLogger) Debug(msg string, args ...any) {
	switch {
	case !l.lines || len(args) > 0:
		l.Logger.Debug(msg, args...)
	case msg == "" || l.stacks.take(msg):
	default:
		l.Logger.Info(msg, "from", "stderr")
	}
}

// Info implements hclog.Logger. go-plugin's own message of this level says that a process has
// ended without an error. The host logs the ends that it did not expect; others are no news:
// a plugin without its device is asked every minute and ends each time.
func (l *stderrLogger) Info(msg string, args ...any) {
	if l.lines {
		l.Logger.Info(msg, args...)
		return
	}
	l.Logger.Debug(msg, args...)
}

// Error implements hclog.Logger. That a process which the host has killed did not end in order
// is no news either: whoever killed it says why.
func (l *stderrLogger) Error(msg string, args ...any) {
	if l.killed.Load() {
		l.Logger.Debug(msg, args...)
		return
	}
	l.Logger.Error(msg, args...)
}

// maxStacks limits the file of stacks, in bytes.
const maxStacks = 4 << 20

// stacks keeps the stacks of all goroutines that a Go program prints when it receives
// SIGQUIT, in a file. They are too many lines for the log.
type stacks struct {
	path string
	log  hclog.Logger

	mu      sync.Mutex
	file    *os.File // open from the first line of the stacks on
	left    int
	written string // the file's path, once there are stacks
}

// take reports whether a line belongs to stacks, and keeps it.
func (s *stacks) take(line string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		if !strings.HasPrefix(line, "SIGQUIT: quit") || !s.open() {
			return false
		}
	}
	if s.left -= len(line) + 1; s.left >= 0 {
		_, _ = s.file.WriteString(line + "\n") // text that does not fit on the disk is lost
	}
	return true
}

func (s *stacks) open() bool {
	err := os.MkdirAll(filepath.Dir(s.path), 0o700)
	if err == nil {
		s.file, err = os.OpenFile(s.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	}
	if err != nil {
		s.log.Warn("the stacks of the plugin cannot be kept in a file, so they are in this log", "error", err)
		return false
	}
	s.left, s.written = maxStacks, s.path
	s.log.Warn("the plugin got SIGQUIT and wrote its stacks, which are kept in a file", "file", s.path)
	return true
}

// close ends the file; the process has ended.
func (s *stacks) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.Close() // the text is already written
		s.file = nil
	}
}
