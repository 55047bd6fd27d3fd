// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/cron"
)

func TestAWindowIsOpenFromItsStartToItsEnd(t *testing.T) {
	for _, c := range []struct {
		start, end, zone string
		open, closed     []string
	}{
		{"30 9 * * MON-FRI", "0 16", "America/New_York",
			[]string{"2026-03-06T14:30:00Z", "2026-03-06T20:59:59Z", "2026-03-09T13:30:00Z"}, // clocks go forward on March 8
			[]string{"2026-03-06T14:29:59Z", "2026-03-06T21:00:00Z", "2026-03-07T15:00:00Z", "2026-03-09T13:29:59Z", "2026-03-09T20:00:00Z"}},
		{"0 22 * * *", "0 6 * * *", "", // over midnight
			[]string{"2026-05-01T22:00:00Z", "2026-05-02T05:59:59Z", "2026-05-02T00:00:00Z"},
			[]string{"2026-05-01T21:59:59Z", "2026-05-02T06:00:00Z", "2026-05-02T12:00:00Z"}},
		{"0 0 2 29 2 * *", "0 0 3 29 2 * *", "", // once in four years
			[]string{"2024-02-29T02:30:00Z"}, []string{"2026-02-28T02:30:00Z", "2024-02-29T03:00:00Z"}},
		{"30 2 * * *", "30 4 * * *", "Europe/Berlin", // 02:30 is skipped on March 29, 2026: it opens at the end of the gap
			[]string{"2026-03-29T01:00:00Z", "2026-03-29T02:29:59Z"}, []string{"2026-03-29T00:59:59Z", "2026-03-29T02:30:00Z"}},
		{"10 2 * * *", "50 2 * * *", "Europe/Berlin", // all of it is skipped: it stays closed
			[]string{"2026-03-28T01:10:00Z", "2026-03-30T00:10:00Z"}, []string{"2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-03-29T12:00:00Z"}},
		{"30 2 * * *", "0 3 * * *", "Europe/Berlin", // skipped up to its end
			[]string{"2026-03-30T00:30:00Z"}, []string{"2026-03-29T01:00:00Z", "2026-03-29T12:00:00Z"}},
		{"0 3 * * *", "30 2 * * *", "Europe/Berlin", // its end is skipped, and it opens at the end of the gap
			[]string{"2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-03-29T12:00:00Z"}, []string{"2026-03-30T00:30:00Z"}},
		{"0 0 * * MON", "0 0 * * *", "", // where both fire, it opens
			[]string{"2026-03-30T00:00:00Z", "2026-03-30T12:00:00Z"}, []string{"2026-03-31T00:00:00Z"}},
		{"30 2 * * *", "0 4 * * *", "Europe/Berlin", // 02:30 comes twice on October 25, 2026: the first counts
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T01:45:00Z", "2026-10-25T02:59:59Z"}, []string{"2026-10-25T00:29:59Z", "2026-10-25T03:00:00Z"}},
	} {
		w, err := cron.NewWindow(c.start, c.end, c.zone)
		if err != nil {
			t.Errorf("%s to %s: %v", c.start, c.end, err)
			continue
		}
		for open, times := range map[bool][]string{true: c.open, false: c.closed} {
			for _, text := range times {
				at, err := time.Parse(time.RFC3339, text)
				if err != nil {
					t.Fatal(err)
				}
				if got := w.Open(at); got != open {
					t.Errorf("%s to %s in %q: at %s open is %v", c.start, c.end, c.zone, text, got)
				}
			}
		}
	}
}

func TestTheNextChangeOfAWindow(t *testing.T) {
	w, err := cron.NewWindow("0 9 * * *", "0 17", "")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)
	for _, hour := range []int{9, 17} {
		if at = w.Next(at); at.Hour() != hour || at.Day() != 1 {
			t.Errorf("the next change is at %s, want %d o'clock", at, hour)
		}
	}
}

func TestWindowsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, c := range []struct{ start, end, zone, want string }{
		{"", "0 16", "", "start: "},
		{"0 16", "0 17", "", "start: cron expression \"0 16\" has 2 fields: it needs at least 5"},
		{"0 9 * * *", "", "", "end: "},
		{"0 9 * * *", "x y", "", "end: "},
		{"0 9 * * *", "0 16", "Mars/Base", "time zone"},
		{"0 9 30 2 *", "0 16", "", "never fires"},
		{"0 9 * * *", "0 9", "", "no length"},
	} {
		if _, err := cron.NewWindow(c.start, c.end, c.zone); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q to %q: %v, want %q", c.start, c.end, err, c.want)
		}
	}
}
