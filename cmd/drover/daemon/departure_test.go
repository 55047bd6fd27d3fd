// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fakeServers are servers that know one node.
type fakeServers struct {
	node model.Node
	away int // how many requests fail before they answer; -1: all
}

func (s *fakeServers) ask(_ context.Context, method, what string, body, answer any) error {
	if s.away != 0 {
		s.away--
		return errdefs.Unavailablef("no cluster leader")
	}
	switch req := body.(type) {
	case *api.NodeDrainRequest:
		s.node.LastDrain = &model.DrainMetadata{StartedAt: time.Now().Truncate(time.Second), Status: model.DrainStatusComplete, Meta: req.Meta}
		s.node.SchedulingEligibility = model.NodeSchedulingIneligible
		if s.node.DrainStrategy = nil; req.MarkEligible {
			s.node.SchedulingEligibility = model.NodeSchedulingEligible
		}
	case *api.NodeEligibilityRequest:
		s.node.SchedulingEligibility = req.Eligibility
	}
	if method == http.MethodGet {
		*answer.(*model.Node) = s.node
	}
	return nil
}

func TestANodeThatReturnsIsEligibleOnlyIfItsOwnDrainMadeItIneligible(t *testing.T) {
	const yes, no = model.NodeSchedulingEligible, model.NodeSchedulingIneligible
	leave := func(d *departure, _ *fakeServers) error { return d.begin(t.Context(), api.DrainSpec{}) }
	returns := func(d *departure, _ *fakeServers) error { return d.end(t.Context()) }
	operator := func(eligibility string) func(*departure, *fakeServers) error {
		return func(_ *departure, s *fakeServers) error { s.node.SchedulingEligibility = eligibility; return nil }
	}
	drained := func(_ *departure, s *fakeServers) error {
		return s.ask(t.Context(), http.MethodPut, "/drain", &api.NodeDrainRequest{DrainSpec: &api.DrainSpec{}}, nil)
	}
	killed := func(_ *departure, s *fakeServers) error { s.node.DrainStrategy = &model.DrainStrategy{}; return nil }
	ofOlderRelease := func(_ *departure, s *fakeServers) error {
		return s.ask(t.Context(), http.MethodPut, "/drain", &api.NodeDrainRequest{DrainSpec: &api.DrainSpec{}, Meta: map[string]string{drainedBy: leftByItself}}, nil)
	}
	for name, c := range map[string]struct {
		steps []func(*departure, *fakeServers) error
		want  string
	}{
		"it left":                                  {[]func(*departure, *fakeServers) error{leave, returns}, yes},
		"it left again within the same second":     {[]func(*departure, *fakeServers) error{leave, returns, leave, returns}, yes},
		"it was killed while it left":              {[]func(*departure, *fakeServers) error{leave, killed, returns}, yes},
		"it left twice before it returned":         {[]func(*departure, *fakeServers) error{leave, leave, returns}, yes},
		"an older release left":                    {[]func(*departure, *fakeServers) error{ofOlderRelease, returns}, yes},
		"it was drained by an operator before":     {[]func(*departure, *fakeServers) error{drained, leave, returns}, no},
		"it was ineligible before":                 {[]func(*departure, *fakeServers) error{operator(no), leave, returns}, no},
		"it is made ineligible after its return":   {[]func(*departure, *fakeServers) error{leave, returns, operator(no), returns}, no},
		"the same after one of an older release":   {[]func(*departure, *fakeServers) error{ofOlderRelease, returns, operator(no), returns}, no},
		"it is made ineligible, and leaves again":  {[]func(*departure, *fakeServers) error{leave, returns, operator(no), leave, returns}, no},
		"it is made eligible again by an operator": {[]func(*departure, *fakeServers) error{operator(no), leave, returns, operator(yes), leave, returns}, yes},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeServers{node: model.Node{SchedulingEligibility: yes}}
			d := &departure{ask: s.ask, file: filepath.Join(t.TempDir(), "returned")}
			for _, step := range c.steps {
				if err := step(d, s); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.node.SchedulingEligibility; got != c.want {
				t.Errorf("the node is %s", got)
			}
		})
	}
}

func TestANodeThatLeavesOrReturnsInsistsWhileThereIsNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServers{node: model.Node{SchedulingEligibility: model.NodeSchedulingEligible}, away: 5}
		d := &departure{ask: s.ask, file: filepath.Join(t.TempDir(), "returned")}
		if err := d.begin(t.Context(), api.DrainSpec{}); err != nil || s.node.LastDrain == nil {
			t.Fatalf("it was not drained: %v", err)
		}
		s.away = 20
		if err := d.end(t.Context()); err != nil || s.node.SchedulingEligibility != model.NodeSchedulingEligible {
			t.Errorf("it is %s: %v", s.node.SchedulingEligibility, err)
		}
		s.away = -1
		began := time.Now()
		if err := d.begin(t.Context(), api.DrainSpec{}); !errdefs.IsUnavailable(err) || time.Since(began) > 2*departureTries {
			t.Errorf("without any server it ends after %s with %v", time.Since(began), err)
		}
	})
}
