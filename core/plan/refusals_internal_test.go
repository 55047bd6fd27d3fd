// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"
	"testing"
	"time"
)

func TestARefusalCountsForLessThanTheWindow(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for after, want := range map[time.Duration]bool{time.Minute - 1: true, time.Minute: false} {
		r := &refusals{Tracking: Tracking{Threshold: 2, Window: time.Minute}}
		if r.note("n", at) {
			t.Fatal("one refusal is enough")
		}
		if got := r.note("n", at.Add(after)); got != want {
			t.Errorf("a refusal %s later: threshold reached is %v", after, got)
		}
	}
}

// Nodes that come and go do not make the list grow. Only one that is not on a full list makes
// room on it.
func TestTheListOfRefusingNodesIsBounded(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	r := &refusals{Tracking: Tracking{Threshold: 2, Window: time.Minute}}
	for i := range maxRefusing {
		r.note(fmt.Sprint("n", i), at)
	}
	if r.note("n0", at); len(r.times) != maxRefusing-1 {
		t.Errorf("%d nodes are remembered after one of %d was noted again", len(r.times), maxRefusing)
	}
	for i := range maxRefusing {
		if r.note(fmt.Sprint("m", i), at); len(r.times) > maxRefusing {
			t.Fatalf("%d nodes are remembered", len(r.times))
		}
	}
	r.note("late", at.Add(time.Hour))
	for i := range maxRefusing {
		r.note(fmt.Sprint("o", i), at.Add(time.Hour))
	}
	for id, times := range r.times {
		if id[0] != 'o' && id != "late" {
			t.Fatalf("%s is remembered since %s", id, at.Add(time.Hour).Sub(times[0]))
		}
	}
}
