// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agentlog

import (
	"os"

	"github.com/hashicorp/go-hclog"
)

type sender func(priority int, line string) error

func (s sender) send(p priority, line string) error { return s(int(p), line) }
func (s sender) close()                             {}

// NewSyslogSink sends lines to a function instead of the machine's syslog.
func NewSyslogSink(to func(priority int, line string) error, level hclog.Level) (sink hclog.SinkAdapter, end func()) {
	s := newSyslogSink(sender(to), Options{}, level)
	return s, s.close
}

// Into makes the log go on in another open file, as if its disk were that one's.
func (f *File) Into(other *os.File) { f.f = other }
