// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cron_test

import (
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/cron"
)

// firesAt reports whether an expression names a time, as clocks show it.
func firesAt(s *cron.Schedule, clock time.Time) bool {
	return s.Next(clock.Add(-time.Second)).Equal(clock)
}

// byTheMinute returns the launches of a schedule by looking at the clock of a zone each minute.
// Its expression is named as for UTC. If it does not follow elapsed time, what clocks show
// again is not launched again, and what they skip is launched when they do.
func byTheMinute(utc *cron.Schedule, zone *time.Location, elapsed bool, from, until time.Time) (out []time.Time) {
	clock := func(at time.Time) time.Time {
		_, offset := at.In(zone).Zone()
		return at.Add(time.Duration(offset) * time.Second).UTC()
	}
	seen := map[time.Time]bool{}
	for at := from.Add(time.Minute); !at.After(until); at = at.Add(time.Minute) {
		now, launch := clock(at), false
		first := clock(at.Add(-time.Minute)).Add(time.Minute)
		if elapsed || now.Before(first) {
			first = now
		}
		for shown := first; !shown.After(now); shown = shown.Add(time.Minute) {
			if firesAt(utc, shown) && (elapsed || !seen[shown]) {
				seen[shown], launch = true, true
			}
		}
		if launch {
			out = append(out, at)
		}
	}
	return out
}

func TestLaunchesAroundChangesOfClocksAreThoseOfAnObserver(t *testing.T) {
	for _, c := range []struct{ zone, change string }{
		{"Pacific/Apia", "2011-12-30T10:00:00Z"},                                                         // a whole day is skipped
		{"Pacific/Kwajalein", "1993-08-21T12:00:00Z"},                                                    // so it was here
		{"Australia/Lord_Howe", "2026-04-04T15:00:00Z"}, {"Australia/Lord_Howe", "2026-10-03T15:30:00Z"}, // half an hour
		{"Antarctica/Troll", "2026-03-29T01:00:00Z"}, {"Antarctica/Troll", "2026-10-25T01:00:00Z"}, // two hours
		{"Asia/Pyongyang", "2018-05-04T15:00:00Z"}, {"America/Caracas", "2016-05-01T07:00:00Z"}, // half an hour, for good
		{"Africa/Casablanca", "2026-02-15T02:00:00Z"}, {"Africa/Casablanca", "2026-03-22T02:00:00Z"}, // Ramadan
		{"America/Sao_Paulo", "2018-11-04T03:00:00Z"}, {"Africa/Cairo", "2026-04-23T22:00:00Z"}, // midnight is skipped
		{"Africa/Cairo", "2026-10-29T21:00:00Z"}, {"America/Havana", "2026-11-01T05:00:00Z"}, // the end of a day comes twice
		{"America/New_York", "2026-03-08T07:00:00Z"}, {"Europe/Dublin", "2026-10-25T01:00:00Z"}, {"Asia/Kathmandu", "2026-01-01T00:00:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, until := at(t, c.change).Add(-50*time.Hour), at(t, c.change).Add(50*time.Hour)
		for expr, elapsed := range map[string]bool{
			"30 2 * * *": false, "0 0 * * *": false, "15 1,2 * * *": false, "*/20 1-3 * * *": false, "45 1 * * *": false, "59 23 * * *": false, "10 0 30 12 *": false,
			"0 12 * * FRI": false, "*/20 * * * *": true, "@hourly": true,
		} {
			s := schedule(t, c.zone, expr)
			var got []time.Time
			for n := s.Next(from); !n.IsZero() && !n.After(until); n = s.Next(n) {
				got = append(got, n)
			}
			want := byTheMinute(schedule(t, "", expr), zone, elapsed, from, until)
			if !slices.EqualFunc(got, want, time.Time.Equal) {
				t.Errorf("%s, %s: %q is launched at\n%v\nnot at\n%v", c.zone, c.change, expr, got, want)
			}
		}
	}
}
