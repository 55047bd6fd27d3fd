// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAStreamThatEndsBeforeItsFirstFingerprintIsNamed: nodes would otherwise show an unhealthy
// driver without any reason.
func TestAStreamThatEndsBeforeItsFirstFingerprintIsNamed(t *testing.T) {
	for what, c := range map[string]struct {
		streams [][]int // what the streams send before they end; the last stays open
		want    string
	}{
		"none":              {[][]int{{}}, ""},
		"at first":          {[][]int{{}, {1}}, "ended before the first one"},
		"after an answer":   {[][]int{{1}, {}, {2}}, ""},
		"again and again":   {[][]int{{}, {}, {1}}, "ended before the first one"},
		"after each answer": {[][]int{{1}, {2}, {3}}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				next, told := 0, ""
				r := printReader[int]{
					open: func(context.Context) (<-chan int, error) {
						in := make(chan int, 1)
						for _, v := range c.streams[next] {
							in <- v
						}
						if next++; next < len(c.streams) {
							close(in)
						} else {
							context.AfterFunc(ctx, func() { close(in) })
						}
						return in, nil
					},
					take:    func(int) {},
					trouble: func(err error) { told = err.Error() },
				}
				time.AfterFunc(10*time.Second, cancel)
				r.run(ctx, nil)
				if !strings.Contains(told, c.want) || (c.want == "") != (told == "") {
					t.Errorf("told %q, want %q", told, c.want)
				}
			})
		})
	}
}
