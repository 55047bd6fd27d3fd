// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"testing"

	"google.golang.org/grpc/connectivity"
)

// states is a connection that goes through its states, one per change, and stays in
// the last one.
type states struct {
	left []connectivity.State
}

func (s *states) GetState() connectivity.State { return s.left[0] }

func (s *states) WaitForStateChange(context.Context, connectivity.State) bool {
	if len(s.left) == 1 {
		return false // as if ctx had ended
	}
	s.left = s.left[1:]
	return true
}

func TestAConnectionThatStillSaysThatItConnectsIsNotLost(t *testing.T) {
	const (
		idle       = connectivity.Idle
		connecting = connectivity.Connecting
		ready      = connectivity.Ready
		failed     = connectivity.TransientFailure
	)
	for _, c := range []struct {
		what  string
		goes  []connectivity.State
		final connectivity.State // where the wait ends
	}{
		{"the state follows the first answer", []connectivity.State{connecting, ready}, ready},
		{"it is lost before its state followed", []connectivity.State{connecting, failed, ready}, failed},
		{"it is lost", []connectivity.State{ready, idle, ready}, idle},
		{"it is lost and connects anew", []connectivity.State{ready, connecting, ready}, connecting},
		{"it was lost before", []connectivity.State{failed, ready}, failed},
	} {
		s := &states{left: c.goes}
		waitLost(t.Context(), s)
		if got := s.GetState(); got != c.final {
			t.Errorf("%s: the wait ended at %v, want %v", c.what, got, c.final)
		}
	}
}
