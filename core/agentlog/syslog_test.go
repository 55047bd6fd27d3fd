// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agentlog_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agentlog"
)

// slow is a syslog that takes nothing until it is released.
type slow struct {
	free chan struct{}
	mu   sync.Mutex
	got  []string
}

func (s *slow) Send(priority int, line string) error {
	<-s.free
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, strings.Repeat("!", priority)+line)
	return nil
}

func TestASlowSyslogStopsNobodyAndItsLinesHaveAPriority(t *testing.T) {
	s := &slow{free: make(chan struct{})}
	sink, end := agentlog.NewSyslogSink(s.Send, hclog.Info)
	sink.Accept("agent", hclog.Debug, "quiet")
	sink.Accept("agent", hclog.Info, "first", "n", 1)
	sink.Accept("agent", hclog.Error, "second")
	for range 3000 {
		sink.Accept("agent", hclog.Warn, "more")
	}
	close(s.free)
	end()
	if len(s.got) > 2000 || len(s.got) < 1000 {
		t.Errorf("%d lines waited", len(s.got))
	}
	if s.got[0] != "![INFO]  agent: first: n=1" || s.got[1] != "!!![ERROR] agent: second" {
		t.Errorf("%q", s.got[:2])
	}
}
