// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package agentlog owns the log of the agent: where it goes (standard error, a file
// that is rotated, syslog), its level and its format, all of which can change while
// the agent runs. cmd/drover imports it.
package agentlog

import (
	"errors"
	"fmt"
	"io"
	"log"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Options configure the log: its level, its form and its destinations.
type Options struct {
	Level    string // TRACE, DEBUG, INFO, WARN or ERROR
	JSON     bool
	Location bool     // include file and line of the source
	File     string   // "" writes no file
	Rotation Rotation // when the file is rotated
	Syslog   bool
	Facility string // facility of syslog
}

// Log is the logger of an agent.
type Log struct {
	hclog.InterceptLogger
	stderr io.Writer

	mu     sync.Mutex
	lines  hclog.SinkAdapter // writes to standard error and the file
	file   *File             // nil without one
	syslog *syslogSink       // nil without it
}

// Open opens the log.
func Open(name string, stderr io.Writer, o Options) (*Log, error) {
	l := &Log{stderr: stderr, InterceptLogger: hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name: name, Output: io.Discard,
		// Only sinks write, because the format of a logger cannot change.
		Exclude: func(hclog.Level, string, ...any) bool { return true },
	})}
	return l, l.Apply(o)
}

// Apply changes the log. It also opens the file again, so that a program that has moved
// the file away finds nothing more written to it. After an error nothing has changed.
func (l *Log) Apply(o Options) error {
	level := hclog.LevelFromString(o.Level)
	if level == hclog.NoLevel {
		return errdefs.InvalidArgumentf("log_level %q is not one of TRACE, DEBUG, INFO, WARN, ERROR", o.Level)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var file *File
	var sys *syslogSink
	var err error
	if o.File != "" {
		if file, err = OpenFile(o.File, o.Rotation, l.stderr); err != nil {
			return err
		}
	}
	if o.Syslog {
		if sys, err = openSyslog(o, level); err != nil {
			if file != nil {
				err = errors.Join(err, file.Close())
			}
			return err
		}
	}
	out := tee{l.stderr}
	if file != nil {
		file.continues(l.file)
		out = append(out, file)
	}
	lines := hclog.NewSinkAdapter(&hclog.LoggerOptions{Level: level, Output: out, JSONFormat: o.JSON, IncludeLocation: o.Location})
	oldLines, oldFile, oldSyslog := l.lines, l.file, l.syslog
	l.lines, l.file, l.syslog = lines, file, sys
	l.SetLevel(level)
	l.RegisterSink(lines)
	if sys != nil {
		l.RegisterSink(sys)
	}
	if oldLines != nil {
		l.DeregisterSink(oldLines)
	}
	if oldSyslog != nil {
		l.DeregisterSink(oldSyslog)
		oldSyslog.close()
	}
	if oldFile != nil {
		_ = oldFile.Close() // its lines are on disk, and no more will be written
	}
	return nil
}

// Collect makes what libraries write to Go's standard logger a part of this log, at level DEBUG:
// they write there what strangers have sent, which would otherwise be lines of no level and
// format. release ends it.
func (l *Log) Collect() (release func()) {
	before, flags := log.Writer(), log.Flags()
	log.SetFlags(0)
	log.SetOutput(l.Named("library").StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}))
	return func() {
		log.SetOutput(before)
		log.SetFlags(flags)
	}
}

// File returns the path of the log file, "" if there is none.
func (l *Log) File() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return ""
	}
	return l.file.path
}

// Close closes the file and ends the messages to syslog. Standard error stays.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.syslog != nil {
		l.DeregisterSink(l.syslog)
		l.syslog.close()
		l.syslog = nil
	}
	if l.file != nil {
		if err := l.file.Close(); err != nil {
			fmt.Fprintf(l.stderr, "the log file could not be closed: %v\n", err)
		}
		l.file = nil
	}
}

// tee writes to all of several writers, even if one fails.
type tee []io.Writer

// Write never fails, because nobody could handle the error of a log.
func (t tee) Write(p []byte) (int, error) {
	for _, w := range t {
		_, _ = w.Write(p)
	}
	return len(p), nil
}
