// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agentlog

import (
	"bytes"
	"time"

	"github.com/hashicorp/go-hclog"
)

// syslogQueue is the number of lines that wait for a slow syslog. Further ones are
// dropped: the agent waits for no other program in order to log.
const syslogQueue = 1024

// syslogEnds is how long the end of the agent waits for a syslog that takes no lines.
const syslogEnds = 2 * time.Second

// priority is one of the priorities of syslog that we use.
type priority int

const (
	debug priority = iota
	info
	warning
	failure
)

// carrier sends lines to syslog.
type carrier interface {
	send(p priority, line string) error
	close()
}

// syslogLine is a line with its priority.
type syslogLine struct {
	priority
	text string
}

// syslogSink formats messages and sends them from a goroutine of its own.
type syslogSink struct {
	text   bytes.Buffer // the line that is being formatted; the logger serializes Accept
	format hclog.SinkAdapter
	lines  chan syslogLine
	ended  chan struct{}
}

// newSyslogSink sends lines without a time, which syslog adds.
func newSyslogSink(to carrier, o Options, level hclog.Level) *syslogSink {
	s := &syslogSink{lines: make(chan syslogLine, syslogQueue), ended: make(chan struct{})}
	s.format = hclog.NewSinkAdapter(&hclog.LoggerOptions{Level: level, Output: &s.text, JSONFormat: o.JSON, DisableTime: !o.JSON})
	go func() {
		defer close(s.ended)
		defer to.close()
		for l := range s.lines {
			_ = to.send(l.priority, l.text) // it has tried to connect again; the file and standard error have the line
		}
	}()
	return s
}

// Accept implements hclog.SinkAdapter.
func (s *syslogSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	s.text.Reset()
	s.format.Accept(name, level, msg, args...)
	if s.text.Len() == 0 {
		return // below the level
	}
	p := info
	switch {
	case level <= hclog.Debug:
		p = debug
	case level == hclog.Warn:
		p = warning
	case level >= hclog.Error:
		p = failure
	}
	select {
	case s.lines <- syslogLine{p, string(bytes.TrimRight(s.text.Bytes(), "\n"))}:
	default: // syslog is slow or gone; the file and standard error have the line
	}
}

// close sends the waiting lines, if syslog accepts them. The caller has deregistered the
// sink before.
func (s *syslogSink) close() {
	close(s.lines)
	late := time.NewTimer(syslogEnds)
	defer late.Stop()
	select {
	case <-s.ended:
	case <-late.C:
	}
}
