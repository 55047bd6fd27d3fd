// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"fmt"
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
)

// clockSlack is the difference to the servers' clock above which an operator is told.
const clockSlack = 30 * time.Second

// clock knows whether the clock of this machine differs from the servers'. Nothing that
// servers and nodes agree on depends on it, but tokens, certificates, and the times that
// people compare do.
type clock struct {
	mu  sync.Mutex
	off bool
}

// compare compares the servers' clock in an answer with the times at which the request was
// sent and answered. It returns the difference, positive if this machine is ahead, and
// whether that became wrong or right again with this answer.
func (c *clock) compare(servers, sent, answered time.Time) (ahead time.Duration, changed bool) {
	if servers.IsZero() { // servers of earlier releases do not say
		return 0, false
	}
	// The servers looked at their clock at some time between the two.
	switch early, late := sent.Sub(servers), answered.Sub(servers); {
	case early > 0:
		ahead = early
	case late < 0:
		ahead = late
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.off
	c.off = ahead.Abs() > clockSlack
	return ahead, c.off != was
}

// compareClocks tells the operator once when the clock of this machine has become wrong, and
// once when it is right again.
func (s *Session) compareClocks(servers, sent, answered time.Time) {
	ahead, changed := s.clock.compare(servers, sent.Round(0), answered.Round(0)) // wall clocks
	if !changed {
		return
	}
	message := "The clock agrees with the servers' again"
	if ahead.Abs() > clockSlack {
		which := "ahead of"
		if ahead < 0 {
			which = "behind"
		}
		message = fmt.Sprintf("The clock is %s %s the servers'", ahead.Abs().Round(time.Second), which)
		s.cfg.Logger.Warn("the clocks of this machine and of the servers differ: tokens and certificates may be refused, and times in logs and of tasks do not match; "+
			"set the clock, for example with chrony", "difference", ahead.Round(time.Second))
	} else {
		s.cfg.Logger.Info("the clocks of this machine and of the servers agree again")
	}
	s.AddEvents([]*model.NodeEvent{{Subsystem: "Cluster", Timestamp: servers.UTC(), Message: message}})
	s.Touch() // the servers learn of the event
}
