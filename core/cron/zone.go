// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cron

import "time"

// The parser assumes a clock without changes (UTC). It is given the time that a clock
// in the zone shows, as if it were UTC; this is called "shown" below.

func (r *rule) next(after time.Time) time.Time {
	if r.every {
		return r.nextInterval(after)
	}
	return r.nextShown(after)
}

// shown returns the time that clocks show at t, as if it were UTC.
func shown(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// nextInterval follows elapsed time: it handles each span with a constant UTC offset
// separately.
func (r *rule) nextInterval(after time.Time) time.Time {
	const spans = 512 // zones change at most twice a year, and expressions end in 2099
	for range spans {
		_, offset := after.Zone()
		_, end := after.ZoneBounds()
		n := r.expr.Next(shown(after))
		if n.IsZero() {
			return n
		}
		t := n.Add(-time.Duration(offset) * time.Second).In(after.Location())
		if end.IsZero() || t.Before(end) {
			return t
		}
		// Begin just before the change, with the offset that applies after it.
		_, later := end.Zone()
		from := end.Add(time.Duration(later)*time.Second - time.Nanosecond).UTC()
		n = r.expr.Next(from)
		if n.IsZero() {
			return n
		}
		t = n.Add(-time.Duration(later) * time.Second).In(after.Location())
		if _, next := end.ZoneBounds(); next.IsZero() || t.Before(next) {
			return t
		}
		after = end
	}
	return time.Time{}
}

// nextShown follows the clock: each shown time fires once.
func (r *rule) nextShown(after time.Time) time.Time {
	from := shown(after)
	for range 8 {
		n := r.expr.Next(from)
		if n.IsZero() {
			return n
		}
		t, ambiguousUntil := instant(n, after.Location())
		if t.After(after) {
			return t
		}
		// after is in the second of two equal hours; times shown in it have fired in
		// the first.
		from = ambiguousUntil.Add(-time.Nanosecond)
	}
	return time.Time{}
}

// named returns the time that the expressions name for a launch at t, as shown says it. It is
// earlier than what clocks show if they skip it; of several the last counts.
func (s *Schedule) named(t time.Time) time.Time {
	t = t.In(s.zone)
	last, from := time.Time{}, shown(t.Add(-time.Nanosecond))
	for _, r := range s.rules {
		for n := r.expr.Next(from); !n.IsZero() && !n.After(shown(t)); n = r.expr.Next(n) {
			if n.After(last) {
				last = n
			}
		}
	}
	if last.IsZero() { // it is the first of two equal hours
		return shown(t)
	}
	return last
}

// instant returns when clocks of a zone first show n, or, if they skip n, the moment
// of the change. until is the end, as shown, of the times around n that are shown
// twice; n itself if n is shown once.
func instant(n time.Time, loc *time.Location) (t, until time.Time) {
	// Offsets are below a day, so the spans around n contain all candidates.
	t = n.Add(-24 * time.Hour).In(loc)
	for {
		_, offset := t.Zone()
		start, end := t.ZoneBounds()
		at := n.Add(-time.Duration(offset) * time.Second).In(loc)
		if !start.IsZero() && at.Before(start) {
			return start.In(loc), n // skipped by the change at start
		}
		if end.IsZero() {
			return at, n
		}
		if at.Before(end) {
			if _, later := end.Zone(); later < offset && !n.Before(end.Add(time.Duration(later)*time.Second).UTC()) {
				return at, end.Add(time.Duration(offset) * time.Second).UTC()
			}
			return at, n
		}
		t = end.In(loc)
	}
}
