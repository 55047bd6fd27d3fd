// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// lasting is how long a session must last for the one after it to begin anew, with the
	// shortest pauses. One that ends sooner is a part of the same outage.
	lasting = 5 * time.Second
	// logAgain is the pause between two lines of the log about one kind of failure in an
	// outage.
	logAgain = time.Minute
)

// outage is a time in which the node has no session that lasts. A node tries every few
// seconds, for hours if need be, so not every attempt is logged: the first failure of each
// kind is, then one in a minute, and the end.
type outage struct {
	began  time.Time
	tries  int                  // attempts that have failed
	moves  int                  // how often the node has gone to another server
	logged map[string]time.Time // by kind of failure
	open   bool                 // a failure was logged, and that it is over was not
}

// failed logs why an attempt has failed, and when the next one is.
func (o *outage) failed(logger hclog.Logger, err error, next time.Duration) {
	now := time.Now()
	if o.tries++; o.tries == 1 {
		o.began, o.logged = now, map[string]time.Time{}
	}
	kind := string(errdefs.ClassOf(err)) + " " + errdefs.ReasonOf(err)
	if last, known := o.logged[kind]; known && now.Sub(last) < logAgain {
		return
	}
	o.logged[kind], o.open = now, true
	args := []any{"in", next.Round(time.Millisecond), "error", err}
	if o.tries > 1 {
		args = append(args, "attempts", o.tries, "since", o.began.UTC().Format(time.RFC3339))
	}
	logger.Warn("no session with the servers; trying again, tasks go on", args...)
}

// registered logs that a failure that was logged is over.
func (o *outage) registered(logger hclog.Logger) {
	if o.open {
		o.open = false
		logger.Info("the node has a session with the servers again", "after", time.Since(o.began).Round(time.Millisecond), "failed_attempts", o.tries)
	}
}
