// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

func TestNoMoreNodesRegisterAtOnceThanAServerCanTake(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newReturns(1000, now)
	for i := range maxArriving {
		if err := r.arrive(now); err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
	}
	first, second := r.arrive(now), r.arrive(now)
	if !errdefs.IsResourceExhausted(first) || errdefs.RetryAfter(first) <= 0 || errdefs.RetryAfter(second) <= errdefs.RetryAfter(first) {
		t.Errorf("the next are told %v, %v", first, second)
	}
	if err := r.admit(now); err != nil { // it has registered, and begins its session
		t.Errorf("a node that registers no more: %v", err)
	}
	r.arrived()
	if err := r.arrive(now); err != nil {
		t.Errorf("after one has arrived: %v", err)
	}
	late := newReturns(2, now)
	for range 2 {
		if err := late.arrive(now); err != nil {
			t.Fatal(err)
		}
	}
	if err := late.arrive(now); !errdefs.IsResourceExhausted(err) || late.arriving != 2 {
		t.Errorf("more per second than allowed: %v, %d are arriving", err, late.arriving)
	}
}
