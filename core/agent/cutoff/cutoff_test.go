// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cutoff

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// In the package: it tests a pure decision, which outside shows only as time.
func TestAllocsAreCutOffOnceTheirLimitAndTheLeaseAreOver(t *testing.T) {
	heard := time.Unix(1000, 0)
	limits := []limited{{"short", time.Second}, {"minute", time.Minute}, {"hour", time.Hour}}
	for _, c := range []struct {
		after time.Duration
		lease time.Duration
		over  string
		next  time.Duration // from heard; 0 is never
	}{
		{0, 0, "", time.Second},
		{time.Second - 1, 0, "", time.Second},
		{time.Second, 0, "short", time.Minute},
		{time.Minute, 0, "minute short", time.Hour},
		{2 * time.Hour, 0, "hour minute short", 0},
		{time.Second, 8 * time.Second, "", 8 * time.Second}, // servers count it as alive
		{8 * time.Second, 8 * time.Second, "short", time.Minute},
		{-time.Hour, 0, "", time.Second}, // the clock went back
	} {
		list, next := cutOff(heard.Add(c.after), heard, c.lease, limits)
		var over []string
		for _, x := range list {
			over = append(over, x.id)
		}
		slices.Sort(over)
		want := time.Time{}
		if c.next != 0 {
			want = heard.Add(c.next)
		}
		if strings.Join(over, " ") != c.over || !next.Equal(want) {
			t.Errorf("%s after the last word, lease %s: got %v and %v, want %q and %v", c.after, c.lease, over, next, c.over, want)
		}
	}
}
