// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership

import (
	"bytes"
	"maps"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Limits of the library's log: messages about garbage and wrong keys on the port are logged
// once per kind of message within quietFor.
const (
	quietFor   = 30 * time.Second
	quietKinds = 64
)

// quiet passes on the log of the library, and leaves out repeated warnings and errors.
type quiet struct {
	logger hclog.Logger
	// ending says that the gossip ends: that it does is no news.
	ending atomic.Bool

	mu   sync.Mutex
	seen map[string]*repeated // by kind of message
}

// repeated is a kind of message: when it was logged last, and how many were left out since.
type repeated struct {
	at   time.Time
	left int
}

func newQuiet(logger hclog.Logger) *quiet {
	return &quiet{logger: logger, seen: map[string]*repeated{}}
}

// rawBytes are the tags of a server, as the library prints them: hundreds of numbers.
var rawBytes = regexp.MustCompile(`\[\d+( \d+){20,}\]`)

// Write logs one line, "DATE TIME [LEVEL] TEXT".
func (q *quiet) Write(p []byte) (int, error) {
	_, line, found := strings.Cut(rawBytes.ReplaceAllString(string(bytes.TrimSpace(p)), "[...]"), "[")
	level, text, closed := strings.Cut(line, "] ")
	if !found || !closed {
		q.logger.Debug(string(bytes.TrimSpace(p)))
		return len(p), nil
	}
	if q.ending.Load() {
		level = "DEBUG"
	}
	switch level {
	case "ERR", "ERROR":
		if left, ok := q.fresh(text); ok {
			q.logger.Error(text, left...)
		}
	case "WARN":
		if left, ok := q.fresh(text); ok {
			q.logger.Warn(text, left...)
		}
	case "INFO":
		q.logger.Info(text)
	default:
		q.logger.Debug(text)
	}
	return len(p), nil
}

// fresh reports whether no message of this kind was logged lately, and returns the field that
// says how many were left out.
func (q *quiet) fresh(text string) (left []any, ok bool) {
	kind := kindOf(text)
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	was := q.seen[kind]
	switch {
	case was == nil:
		if !q.makeRoom(now) {
			return nil, false
		}
		q.seen[kind] = &repeated{at: now}
		return nil, true
	case now.Sub(was.at) < quietFor:
		was.left++
		return nil, false
	case was.left > 0:
		left = []any{"more", was.left}
	}
	*was = repeated{at: now}
	return left, true
}

// makeRoom forgets kinds that may be logged again, and reports whether there is room for
// another: whoever sends garbage must not choose how much is logged.
func (q *quiet) makeRoom(now time.Time) bool {
	if len(q.seen) < quietKinds {
		return true
	}
	maps.DeleteFunc(q.seen, func(_ string, r *repeated) bool { return now.Sub(r.at) >= quietFor })
	return len(q.seen) < quietKinds
}

// chosen is what differs between messages of one kind: numbers, and texts that others choose.
var chosen = regexp.MustCompile(`\d+|'[^']*'|"(\\.|[^"\\])*"`)

// kindOf returns the text up to its second colon and to the address from which the packet came,
// without what senders choose.
func kindOf(text string) string {
	kind, _, _ := strings.Cut(chosen.ReplaceAllString(text, ""), " from=")
	if parts := strings.SplitN(kind, ":", 3); len(parts) == 3 {
		kind = parts[0] + parts[1]
	}
	return kind
}
