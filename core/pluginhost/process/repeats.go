// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A plugin whose device or daemon is absent is started again at intervals, and prints each
// time that it has found nothing. The agent logs that only once.

const (
	// repeatWithin is the time within which the same line from a later process of the
	// plugin counts as a repetition. It is longer than the interval of those starts.
	repeatWithin = 10 * time.Minute
	// maxSaid bounds the lines that are remembered of one plugin.
	maxSaid = 256
)

// sayings are the recent lines of plugins' processes, by plugin.
type sayings struct {
	mu  sync.Mutex
	all map[string]*saying
}

// saying has the recent lines of one plugin's processes.
type saying struct {
	mu        sync.Mutex
	processes int
	last      map[string]said
}

type said struct {
	process int // the first of the consecutive processes that wrote the line
	at      time.Time
}

// next returns the logger of a new process of the plugin. It logs a line that an earlier
// process has written at level debug.
func (s *sayings) next(plugin string, log hclog.Logger) hclog.Logger {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*saying{}
	}
	one := s.all[plugin]
	if one == nil {
		one = &saying{last: map[string]said{}}
		s.all[plugin] = one
	}
	return &onceLogger{Logger: log, saying: one, process: one.begin()}
}

func (s *saying) begin() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes++
	return s.processes
}

// repeats reports whether an earlier process has written the same line recently.
func (s *saying) repeats(process int, line string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.last[line]
	recent := known && now.Sub(before.at) < repeatWithin
	if !recent {
		before = said{process: process}
	}
	if !known && len(s.last) >= maxSaid {
		clear(s.last)
	}
	before.at = now
	s.last[line] = before
	return recent && before.process != process
}

// onceLogger lowers the level of lines that an earlier process has written.
type onceLogger struct {
	hclog.Logger
	saying  *saying
	process int
}

// Log implements hclog.Logger.
func (l *onceLogger) Log(level hclog.Level, msg string, args ...any) {
	if level > hclog.Debug && l.saying.repeats(l.process, line(level, msg, args), time.Now()) {
		level = hclog.Debug
	}
	l.Logger.Log(level, msg, args...)
}

// With implements hclog.Logger.
func (l *onceLogger) With(args ...any) hclog.Logger {
	return &onceLogger{Logger: l.Logger.With(args...), saying: l.saying, process: l.process}
}

// line is a line of a log without its time.
func line(level hclog.Level, msg string, args []any) string {
	out := level.String() + " " + msg
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] != "timestamp" {
			out += fmt.Sprintf(" %v=%v", args[i], args[i+1])
		}
	}
	return out
}
