// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/core/model"
)

const (
	reasonWithin    = model.RestartWithinPolicy
	reasonDelayed   = "Exceeded allowed attempts, applying a delay"
	reasonForbidden = "Policy allows no restarts"
	reasonHint      = "The failed start asked for a later try"
)

// maxHint is the longest delay that a failed start itself may ask for.
const maxHint = 10 * time.Minute

// Decision is the decision of a restart policy after a failure or an end.
type Decision struct {
	Restart     bool
	Delay       time.Duration // before the restart
	Reason      string        // in the words of task events
	WindowStart time.Time     // pass it to the next call of Decide
	WindowCount int
}

// Decide returns whether and when a task that has ended or failed starts again. Attempts
// are counted in windows of the policy's interval; the first restart begins a window.
// jitter is from 0 to 1.
func Decide(p model.RestartPolicy, start time.Time, count int, now time.Time, jitter float64) Decision {
	if start.IsZero() || now.Sub(start) > p.Interval {
		start, count = now, 0
	}
	count++
	d := Decision{WindowStart: start, WindowCount: count}
	switch {
	case count <= p.Attempts:
		d.Restart, d.Reason = true, reasonWithin
		d.Delay = p.Delay + time.Duration(float64(p.Delay)*0.25*jitter)
	case p.Mode == model.RestartPolicyModeDelay:
		d.Restart, d.Reason = true, reasonDelayed
		d.Delay = start.Add(p.Interval).Sub(now) + time.Duration(float64(p.Delay)*0.25*jitter)
	case p.Attempts == 0:
		d.Reason = reasonForbidden
	default:
		d.Reason = fmt.Sprintf("Exceeded allowed attempts %d in interval %s and mode is %q", p.Attempts, p.Interval, p.Mode)
	}
	return d
}

// notBefore returns the decision with a delay of at least hint, limited to maxHint. It never
// shortens the policy's delay. The time that it adds does not count in the policy's
// interval: otherwise it could begin a new window for each try, and the attempts would
// never be used up.
func (d Decision) notBefore(hint time.Duration) Decision {
	more := min(hint, maxHint) - d.Delay
	if !d.Restart || more <= 0 {
		return d
	}
	d.Delay += more
	d.WindowStart = d.WindowStart.Add(more)
	d.Reason = reasonHint
	return d
}
