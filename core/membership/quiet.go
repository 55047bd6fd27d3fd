// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
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

	mu   sync.Mutex
	seen map[string]time.Time // by kind of message
}

func newQuiet(logger hclog.Logger) *quiet {
	return &quiet{logger: logger, seen: map[string]time.Time{}}
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
	switch level {
	case "ERR", "ERROR":
		if q.fresh(text) {
			q.logger.Error(text)
		}
	case "WARN":
		if q.fresh(text) {
			q.logger.Warn(text)
		}
	case "INFO":
		q.logger.Info(text)
	default:
		q.logger.Debug(text)
	}
	return len(p), nil
}

// fresh reports whether no message of this kind was logged lately. The kind is the text
// up to the second colon: what follows are addresses and causes.
func (q *quiet) fresh(text string) bool {
	kind := text
	if parts := strings.SplitN(text, ":", 3); len(parts) == 3 {
		kind = parts[0] + parts[1]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if last, ok := q.seen[kind]; ok && now.Sub(last) < quietFor {
		return false
	}
	if len(q.seen) >= quietKinds {
		clear(q.seen)
	}
	q.seen[kind] = now
	return true
}
