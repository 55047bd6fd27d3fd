// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// begin has the servers begin a term, and the leader say so unless it is not told.
func (s *servers) begin(t *testing.T, term string, tell bool) {
	t.Helper()
	s.log.write(t, &fsm.BeginTerm{ClusterID: "c", TermID: term})
	if tell {
		s.Begin(term)
	}
}

// first is the first push to a node that has seen something.
func (s *servers) first(t *testing.T, seen model.ClusterPoint) *rpc.Assignments {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	pushed, ended := make(chan *rpc.Assignments, 10), make(chan error, 1)
	id := identity(idN1)
	id.Seen = seen
	go func() { ended <- s.Attach(ctx, id, nil, func(a *rpc.Assignments) error { pushed <- a; return nil }) }()
	x := <-pushed
	cancel()
	<-ended
	return x
}

func TestALeaderVouchesForAHistoryOnceItsTermHasBegun(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, _ context.Context) {
		s.begin(t, "one", true)
		s.register(t, idN1)
		all := s.first(t, model.ClusterPoint{})
		if !all.Confirmed || all.Lost || all.ClusterID != "c" || all.TermID != "one" {
			t.Fatalf("first %+v", all)
		}
		seen := model.ClusterPoint{ClusterID: "c", TermID: "one", Index: all.Index}
		s.Begin("") // another server leads, and writes
		s.begin(t, "two", false)
		if x := s.first(t, seen); x.Confirmed || x.Lost {
			t.Errorf("one that does not lead vouches: %+v", x)
		}
		s.Begin("two")
		if x := s.first(t, seen); !x.Confirmed || x.Lost {
			t.Errorf("it lacks what it has: %+v", x)
		}
		for _, p := range []model.ClusterPoint{
			{ClusterID: "c", TermID: "one", Index: all.Index + 1}, // the copy ended before
			{ClusterID: "c", TermID: "three", Index: 1},
		} {
			if x := s.first(t, p); !x.Confirmed || !x.Lost {
				t.Errorf("it vouches for %+v: %+v", p, x)
			}
			id := identity(idN1)
			id.Seen = p
			if x, err := s.Plugins(t.Context(), id); err != nil || x.Confirmed {
				t.Errorf("it vouches for the plugins: %+v, %v", x, err)
			}
		}
	})
}

func TestANodeOfAnotherClusterIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.begin(t, "one", true)
		s.register(t, idN1)
		before := s.log.writes.Load()
		n := node(idN1)
		n.ClusterID = "another"
		if _, err := s.Register(ctx, n); !errdefs.IsConflict(err) {
			t.Errorf("register: %v", err)
		}
		id := identity(idN1)
		id.Seen.ClusterID = "another"
		if _, err := s.Beat(ctx, id); !errdefs.IsConflict(err) {
			t.Errorf("beat: %v", err)
		}
		if err := s.Attach(ctx, id, nil, nil); !errdefs.IsConflict(err) {
			t.Errorf("attach: %v", err)
		}
		if s.log.writes.Load() != before {
			t.Error("something was written")
		}
	})
}

func TestAChangeInATermThatWasNotToldYetIsNotVouchedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		s.begin(t, "one", true)
		s.register(t, idN1)
		synctest.Wait() // the feed's beginning tells everything, too
		pushed, _ := s.attach(ctx, idN1, nil)
		if x := <-pushed; !x.Confirmed {
			t.Fatalf("first %+v", x)
		}
		s.place(t, idN1, "a1")
		if x := <-pushed; x.Full || !x.Confirmed || x.TermID != "one" {
			t.Errorf("then %+v", x)
		}
		s.Begin("")
		s.begin(t, "two", false)
		s.place(t, idN1, "a2")
		if x := <-pushed; x.Full || x.Confirmed {
			t.Errorf("in the next term %+v", x)
		}
		s.Begin("two")
		if x := <-pushed; !x.Full || !x.Confirmed || x.Lost || x.TermID != "two" {
			t.Errorf("when it leads %+v", x)
		}
		synctest.Wait()
	})
}
