// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package checks

import (
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Status is the status of a check, in the words of the API.
type Status string

// The statuses.
const (
	Pending Status = "pending" // no result has decided it yet
	Success Status = "success"
	Warning Status = "warning"
	Failure Status = "failure"
)

// Outcome is the outcome of one run of a check.
type Outcome struct {
	Status Status // Success, Warning or Failure
	Code   int    // status of an HTTP answer; otherwise 0
	Output string
}

// State is the state of a check between runs. It is plain data and is stored as JSON.
type State struct {
	Status Status
	// Run names the start of the tasks to which the status belongs.
	Run string `json:",omitempty"`
	// Port is the port to which the status belongs; "" in states of earlier versions.
	Port string `json:",omitempty"`
	// GoodSince is the time since which the check allows the alloc to be healthy; zero
	// while it does not.
	GoodSince time.Time `json:",omitzero"`
	Successes int       `json:",omitempty"` // in a row
	Failures  int       `json:",omitempty"` // in a row
	// Bad is the number of consecutive bad results, as check_restart counts them.
	Bad    int       `json:",omitempty"`
	Code   int       `json:",omitempty"`
	Output string    `json:",omitempty"`
	At     time.Time `json:",omitzero"` // time of the last result
}

// Begin is the state of a check before its first result for a run.
func Begin(c *model.ServiceCheck, run string, now time.Time) State {
	s := State{Status: Pending, Run: run, At: now.UTC()}
	switch strings.ToLower(c.InitialStatus) {
	case "passing":
		s.Status = Success
	case "warning":
		s.Status = Warning
	case "critical":
		s.Status = Failure
	}
	return s.judged(c, now)
}

// Next is the state after a result. began is the start of the tasks that are checked.
func (s State) Next(c *model.ServiceCheck, o Outcome, began, now time.Time) State {
	s.Code, s.Output, s.At = o.Code, o.Output, now.UTC()
	switch o.Status {
	case Success:
		s.Successes, s.Failures = s.Successes+1, 0
		if s.Successes >= c.SuccessBeforePassing {
			s.Status = Success
		}
	case Warning:
		s.Successes, s.Failures, s.Status = 0, 0, Warning
	default:
		s.Successes, s.Failures = 0, s.Failures+1
		switch {
		case s.Failures >= c.FailuresBeforeCritical:
			s.Status = Failure
		case c.FailuresBeforeWarning > 0 && s.Failures >= c.FailuresBeforeWarning:
			s.Status = Warning
		}
	}
	s.Bad = s.count(c, began, now)
	return s.judged(c, now)
}

// count returns the results in a row for which check_restart would restart the task.
func (s State) count(c *model.ServiceCheck, began, now time.Time) int {
	r := c.CheckRestart
	switch {
	case r == nil || r.Limit <= 0 || now.Before(began.Add(r.Grace)):
		return 0
	case s.Status == Failure, s.Status == Warning && !r.IgnoreWarnings:
		return s.Bad + 1
	}
	return 0
}

// mustRestart reports whether check_restart asks for a restart now.
func (s State) mustRestart(c *model.ServiceCheck) bool {
	return c.CheckRestart != nil && c.CheckRestart.Limit > 0 && s.Bad >= c.CheckRestart.Limit
}

// judged sets GoodSince.
func (s State) judged(c *model.ServiceCheck, now time.Time) State {
	good := s.Status == Success || s.Status == Warning && c.OnUpdate == model.OnUpdateIgnoreWarn
	switch {
	case !good:
		s.GoodSince = time.Time{}
	case s.GoodSince.IsZero():
		s.GoodSince = now.UTC()
	}
	return s
}
