// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cron

import "time"

// The parser knows clocks that are never changed (UTC). What it is asked is the
// time that clocks of the zone show, taken as if it were UTC: "shown" below.

func (r *rule) next(after time.Time) time.Time {
	if r.every {
		return r.nextInterval(after)
	}
	return r.nextShown(after)
}

// shown returns what clocks show at t, as if it were UTC.
func shown(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// nextInterval goes by elapsed time: within a span of equal offset clocks are
// steady, so each span is asked for itself.
func (r *rule) nextInterval(after time.Time) time.Time {
	const spans = 512 // zones change at most twice a year, expressions end in 2099
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
		// From just before the change, by the clocks that hold after it.
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

// nextShown goes by what clocks show: each shown time fires once.
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
		// after lies in the second of two equal hours: what they show has fired in the first.
		from = ambiguousUntil.Add(-time.Nanosecond)
	}
	return time.Time{}
}

// instant returns when clocks of a zone first show n: if they never do, the
// moment at which they skip it. until is the end, as shown, of the times that are shown
// twice around n; n itself if n is shown once.
func instant(n time.Time, loc *time.Location) (t, until time.Time) {
	// Offsets are below a day: the spans around n hold all candidates.
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
