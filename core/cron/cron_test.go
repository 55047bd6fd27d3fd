// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cron_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/cron"
)

func schedule(t testing.TB, zone string, expressions ...string) *cron.Schedule {
	t.Helper()
	s, err := cron.New(expressions, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// fires lists the launches in (from, until] as clocks of the zone show them, with their offset.
func fires(t testing.TB, s *cron.Schedule, from, until string) string {
	t.Helper()
	var out []string
	for n := s.Next(at(t, from)); !n.IsZero() && !n.After(at(t, until)); n = s.Next(n) {
		out = append(out, n.Format("02T15:04:05-07"))
		if len(out) > 50 {
			t.Fatal("fires without end")
		}
	}
	return strings.Join(out, " ")
}

func TestExpressionsFireWhenTheySay(t *testing.T) {
	for _, c := range []struct{ expr, from, want string }{
		{"*/15 * * * *", "2026-11-21T10:07:03Z", "2026-11-21T10:15:00Z"},
		{"@daily", "2026-11-21T10:07:03Z", "2026-11-22T00:00:00Z"},
		{"@hourly", "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"},
		{"@weekly", "2026-11-21T10:00:00Z", "2026-11-22T00:00:00Z"},
		{"@monthly", "2026-11-21T10:00:00Z", "2026-12-01T00:00:00Z"},
		{"@yearly", "2026-11-21T10:00:00Z", "2027-01-01T00:00:00Z"},
		{"@annually", "2026-11-21T10:00:00Z", "2027-01-01T00:00:00Z"},
		{"0 9 * * mon-fri", "2026-11-21T10:00:00Z", "2026-11-23T09:00:00Z"},
		{"0 0 29 2 *", "2026-11-21T10:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 L * *", "2026-11-21T10:00:00Z", "2026-11-30T00:00:00Z"},
		{"*/5 * * * * * *", "2026-11-21T10:00:03Z", "2026-11-21T10:00:05Z"},
		{"0 0 1 1 * 2030", "2026-11-21T10:00:00Z", "2030-01-01T00:00:00Z"},
	} {
		if got := schedule(t, "", c.expr).Next(at(t, c.from)); !got.Equal(at(t, c.want)) {
			t.Errorf("%q after %s fires at %s, not %s", c.expr, c.from, got, c.want)
		}
	}
}

func TestWhatNeverFiresSaysSo(t *testing.T) {
	for _, expr := range []string{"0 0 31 2 *", "0 0 1 1 * 2020"} {
		if got := schedule(t, "Europe/Berlin", expr).Next(at(t, "2026-11-21T10:00:00Z")); !got.IsZero() {
			t.Errorf("%q fires at %s", expr, got)
		}
	}
}

func TestBadExpressionsAndZonesAreRefused(t *testing.T) {
	for _, expr := range []string{"", "* * * *", "61 * * * *", "a b c d e", "*/0 * * * *", "@every 1s", "* * * * * * * *", strings.Repeat("1,", 200) + "1 * * * *"} {
		if err := cron.Parse(expr); err == nil {
			t.Errorf("%q was read", expr)
		}
	}
	for _, zone := range []string{"Nowhere/Town", "../etc/passwd"} {
		if _, err := cron.New([]string{"@daily"}, zone); err == nil {
			t.Errorf("zone %q was taken", zone)
		}
	}
	if _, err := cron.New(make([]string, cron.MaxExpressions+1), ""); err == nil {
		t.Error("any number of expressions is taken")
	}
}

// In Berlin clocks went from 02:00 to 03:00 on 2026-03-29 and from 03:00 to 02:00 on 2026-10-25.
func TestDaylightSavingNeitherLosesNorDoublesLaunches(t *testing.T) {
	const berlin = "Europe/Berlin"
	for _, c := range []struct{ name, expr, from, until, want string }{
		{"an hour that is skipped", "30 2 * * *", "2026-03-28T00:00:00Z", "2026-03-30T12:00:00Z", "28T02:30:00+01 29T03:00:00+02 30T02:30:00+02"},
		{"several times of a skipped hour", "*/20 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", "29T03:00:00+02"},
		{"an hour that comes twice", "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z", "25T02:30:00+02 26T02:30:00+01"},
		{"several times of an hour that comes twice", "*/20 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", "25T02:00:00+02 25T02:20:00+02 25T02:40:00+02"},
		{"an interval when an hour is skipped", "*/30 * * * *", "2026-03-29T00:15:00Z", "2026-03-29T02:00:00Z", "29T01:30:00+01 29T03:00:00+02 29T03:30:00+02 29T04:00:00+02"},
		{"an interval when an hour comes twice", "*/30 * * * *", "2026-10-25T00:15:00Z", "2026-10-25T02:15:00Z", "25T02:30:00+02 25T02:00:00+01 25T02:30:00+01 25T03:00:00+01"},
		{"an interval whose hours are all named, when an hour comes twice", "*/30 0-23 * * *", "2026-10-25T00:15:00Z", "2026-10-25T02:15:00Z", "25T02:30:00+02 25T02:00:00+01 25T02:30:00+01 25T03:00:00+01"},
		{"hourly over both", "@hourly", "2026-10-24T23:30:00Z", "2026-10-25T02:30:00Z", "25T02:00:00+02 25T02:00:00+01 25T03:00:00+01"},
		{"several hours when one comes twice", "0 1-3 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", "25T01:00:00+02 25T02:00:00+02 25T03:00:00+01"},
	} {
		if got := fires(t, schedule(t, berlin, c.expr), c.from, c.until); got != c.want {
			t.Errorf("%s: %q fires at\n%s\nnot at\n%s", c.name, c.expr, got, c.want)
		}
	}
}

func TestADailyJobIsLaunchedOnceADayInEveryZone(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/Sao_Paulo", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "Asia/Tehran", "UTC"} {
		for _, expr := range []string{"30 2 * * *", "0 0 * * *", "15 1 * * *"} {
			s := schedule(t, zone, expr)
			loc, _ := time.LoadLocation(zone)
			day := time.Date(2014, 1, 1, 0, 0, 0, 0, time.UTC)
			from := time.Date(2013, 12, 31, 12, 0, 0, 0, loc)
			for n := s.Next(from); n.Year() < 2020; n = s.Next(n) {
				if got := n.Format("2006-01-02"); got != day.Format("2006-01-02") {
					t.Fatalf("%s in %s: a launch on %s, expected %s", expr, zone, got, day.Format("2006-01-02"))
				}
				day = day.AddDate(0, 0, 1)
			}
		}
	}
}

func TestNextIsTheEarliestOfSeveralExpressions(t *testing.T) {
	s := schedule(t, "", "0 12 * * *", "30 6 * * *", "30 6 * * *")
	if got, want := fires(t, s, "2026-11-21T00:00:00Z", "2026-11-22T08:00:00Z"), "21T06:30:00+00 21T12:00:00+00 22T06:30:00+00"; got != want {
		t.Errorf("fires at %s, not %s", got, want)
	}
}

// Next must only go forward, and Last must be what stepping with Next ends at.
func TestLastIsTheEndOfAllLaunchesBetween(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		zone := []string{"", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"}[rng.IntN(4)]
		expr := []string{"*/7 * * * *", "30 2 * * *", "*/20 1-3 * * *", "@hourly", "0 */2 * * *", "0 0 * * 0", "0 0 31 2 *"}[rng.IntN(7)]
		s := schedule(t, zone, expr)
		from := time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rng.Int64N(int64(5 * 365 * 24 * time.Hour))))
		until := from.Add(time.Duration(rng.Int64N(int64(40 * time.Hour))))
		var want time.Time
		for n := s.Next(from); !n.IsZero() && !n.After(until); n = s.Next(n) {
			if !n.After(want) {
				t.Fatalf("%q in %q: %s comes after %s", expr, zone, n, want)
			}
			want = n
		}
		if got := s.Last(from, until); !got.Equal(want) {
			t.Fatalf("%q in %q: the last of (%s, %s] is %s, not %s", expr, zone, from, until, got, want)
		}
	}
}

func TestLastOfAYearOfSecondsCostsNoYear(t *testing.T) {
	s := schedule(t, "Europe/Berlin", "* * * * * * *")
	until := at(t, "2026-11-21T10:00:00Z")
	start := time.Now()
	if got := s.Last(until.AddDate(-10, 0, 0), until); !got.Equal(until) {
		t.Errorf("last is %s", got)
	}
	// To look at each second of ten years would take minutes.
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestIntervalIsTheShortestGap(t *testing.T) {
	from := at(t, "2026-11-21T10:00:00Z")
	for expr, want := range map[string]time.Duration{"* * * * * * *": time.Second, "*/15 * * * *": 15 * time.Minute, "0,1 0 * * *": time.Minute, "0 0 31 2 *": 0} {
		if got := schedule(t, "", expr).Interval(from); got != want {
			t.Errorf("%q fires every %s, not %s", expr, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"* * * * *", "@daily", "0 0 L * *", "0 0 1W * 5#2 2099", "*/5 1-3,7 * jan-mar mon"} {
		f.Add(s)
	}
	from := at(f, "2026-03-29T00:00:00Z")
	f.Fuzz(func(t *testing.T, expr string) {
		s, err := cron.New([]string{expr}, "Europe/Berlin")
		if err != nil {
			return
		}
		last := from
		for range 5 {
			n := s.Next(last)
			if n.IsZero() {
				return
			}
			if !n.After(last) {
				t.Fatalf("%q: %s follows %s", expr, n, last)
			}
			last = n
		}
	})
}
