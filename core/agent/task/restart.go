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
)

type decision struct {
	restart     bool
	delay       time.Duration
	reason      string
	windowStart time.Time
	windowCount int
}

// decide returns whether and when an ended task is restarted. Attempts are counted in
// windows of the policy's interval; the first restart begins a window.
func decide(p model.RestartPolicy, start time.Time, count int, now time.Time, jitter float64) decision {
	if start.IsZero() || now.Sub(start) > p.Interval {
		start, count = now, 0
	}
	count++
	d := decision{windowStart: start, windowCount: count}
	switch {
	case count <= p.Attempts:
		d.restart, d.reason = true, reasonWithin
		d.delay = p.Delay + time.Duration(float64(p.Delay)*0.25*jitter)
	case p.Mode == model.RestartPolicyModeDelay:
		d.restart, d.reason = true, reasonDelayed
		d.delay = start.Add(p.Interval).Sub(now) + time.Duration(float64(p.Delay)*0.25*jitter)
	case p.Attempts == 0:
		d.reason = reasonForbidden
	default:
		d.reason = fmt.Sprintf("Exceeded allowed attempts %d in interval %s and mode is %q", p.Attempts, p.Interval, p.Mode)
	}
	return d
}
