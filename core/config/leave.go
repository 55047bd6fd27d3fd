// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"time"
)

// Drain configures the drain of a node before its agent shuts down.
type Drain struct {
	Deadline         string `json:"deadline,omitempty"` // 1h unless set
	IgnoreSystemJobs bool   `json:"ignore_system_jobs,omitempty"`
	Force            bool   `json:"force,omitempty"`
}

// DrainSpec is a validated Drain. A negative deadline stops all allocs at once.
type DrainSpec struct {
	Deadline         time.Duration
	IgnoreSystemJobs bool
}

// Spec returns the drain that Finish has validated.
func (d *Drain) Spec() DrainSpec {
	if d.Force {
		return DrainSpec{Deadline: -1, IgnoreSystemJobs: d.IgnoreSystemJobs}
	}
	return DrainSpec{Deadline: Duration(d.Deadline, time.Hour), IgnoreSystemJobs: d.IgnoreSystemJobs}
}

// leaveProblems lists the invalid values of the shutdown configuration, and warns of
// values without effect.
func (c *Config) leaveProblems() (problems []string) {
	leaves := c.LeaveOnInt || c.LeaveOnTerm
	drain := c.Client.Drain
	if drain != nil {
		if at, err := ParseDuration(drain.Deadline); err != nil || drain.Deadline != "" && at <= 0 {
			problems = append(problems, fmt.Sprintf("client.drain_on_shutdown: deadline %q is not a time such as \"1h\"; force = true ends all at once", drain.Deadline))
		}
	}
	switch {
	case drain != nil && !leaves:
		c.warnOnce("client.drain_on_shutdown does nothing without leave_on_interrupt or leave_on_terminate")
	case leaves && drain == nil && (!c.Server.Enabled || c.Dev): // the server of a development agent has no cluster to leave
		c.warnOnce("leave_on_interrupt and leave_on_terminate do nothing without client.drain_on_shutdown: the node's tasks go on")
	}
	return problems
}

func (c *Config) warnOnce(text string) {
	for _, w := range c.Warnings {
		if w == text {
			return
		}
	}
	c.Warnings = append(c.Warnings, text)
}
