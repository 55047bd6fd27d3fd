// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"testing"
	"time"
)

func TestTheOldestStartOfAPluginIsKnownUntilItEnds(t *testing.T) {
	var s starts
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	first, second, other := s.begin("a", at(1)), s.begin("a", at(2)), s.begin("b", at(0))
	for _, step := range []struct {
		end  func()
		want time.Time
	}{{func() {}, at(1)}, {other, at(1)}, {first, at(2)}, {first, at(2)}, {second, time.Time{}}} {
		step.end()
		if got := s.oldest("a"); !got.Equal(step.want) {
			t.Errorf("the oldest began at %v, want %v", got, step.want)
		}
	}
	if len(s.begun) != 0 {
		t.Errorf("%v is left", s.begun)
	}
}
