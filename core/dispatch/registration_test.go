// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

const reporterID = "00000000-0000-0000-0000-0000000000b1"

// reporter is a node that tells a server what differs.
type reporter struct {
	t       *testing.T
	node    *model.Node // as the servers have it
	version uint64
	number  uint64
}

// next returns a registration with an attribute, which is the only one besides those kept.
func (r *reporter) next(value string) *model.Node {
	r.number++
	n := r.node.Copy()
	n.Number, n.Attributes = r.number, maps.Clone(n.Attributes)
	n.Attributes["a"] = value
	return n
}

func (r *reporter) change(to *model.Node) *model.NodeChange {
	c := model.ChangeOf(r.node, to)
	c.Base = r.version
	return c
}

// answered notes an answer that has arrived.
func (r *reporter) answered(n *model.Node, lease rpc.Lease, err error) {
	r.t.Helper()
	if err != nil || lease.Version == 0 {
		r.t.Fatalf("the registration of %v: %+v, %v", n.Attributes, lease, err)
	}
	r.node, r.version = n, lease.Version
}

func newReporter(t *testing.T, s *servers) *reporter {
	t.Helper()
	synctest.Wait() // it leads
	r := &reporter{t: t, node: node(reporterID), number: 1}
	r.node.Instance, r.node.Session, r.node.Number = "i", 1, 1
	r.node.Attributes = map[string]string{"kept": "1", "a": "0"}
	r.node.Drivers = map[string]*model.DriverInfo{"raw_exec": {Healthy: true}}
	lease, err := s.Register(t.Context(), r.node)
	r.answered(r.node, lease, err)
	return r
}

func (s *servers) attributes(t *testing.T, want string) {
	t.Helper()
	n := s.store.View().NodeByID(reporterID)
	if n.Attributes["a"] != want || n.Attributes["kept"] != "1" || n.Drivers["raw_exec"] == nil || n.Status != model.NodeStatusReady || n.Number+n.Session != 0 {
		t.Errorf("the node is %+v; attribute a should be %q", n, want)
	}
}

func TestAChangedRegistrationIsMadeFromTheOneInTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, t.Context())
		r := newReporter(t, s)
		now := r.next("1")
		lease, err := s.Change(t.Context(), r.change(now))
		r.answered(now, lease, err)
		s.attributes(t, "1")

		// What servers change of the node in between, they keep, and it changes no version.
		s.log.write(t, &fsm.UpdateNodeEligibility{NodeID: reporterID, Eligibility: model.NodeSchedulingIneligible})
		now = r.next("2")
		lease, err = s.Change(t.Context(), r.change(now))
		r.answered(now, lease, err)
		s.attributes(t, "2")
		if n := s.store.View().NodeByID(reporterID); n.SchedulingEligibility != model.NodeSchedulingIneligible {
			t.Errorf("it is %s", n.SchedulingEligibility)
		}

		// Nothing has changed: nothing is written.
		writes := s.log.writes.Load()
		now = r.next("2")
		lease, err = s.Change(t.Context(), r.change(now))
		r.answered(now, lease, err)
		if got := s.log.writes.Load(); got != writes {
			t.Errorf("%d writes", got-writes)
		}
	})
}

func TestAChangeOfARegistrationThatTheServersDoNotHaveIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, t.Context())
		r := newReporter(t, s)
		first := r.next("1")
		if _, err := s.Change(t.Context(), r.change(first)); err != nil { // the answer is lost
			t.Fatal(err)
		}
		second := r.next("2")
		if _, err := s.Change(t.Context(), r.change(second)); !errdefs.IsAborted(err) {
			t.Errorf("a change of what the servers no longer have: %v", err)
		}
		if _, err := s.Change(t.Context(), r.change(first)); !errdefs.IsAborted(err) {
			t.Errorf("a repeated change: %v", err)
		}
		s.attributes(t, "1")
		lease, err := s.Register(t.Context(), second)
		r.answered(second, lease, err)
		s.attributes(t, "2")

		if _, err := s.Change(t.Context(), &model.NodeChange{Node: node("00000000-0000-0000-0000-0000000000b2")}); !errdefs.IsAborted(err) {
			t.Errorf("a node that is not known: %v", err)
		}
		thief := r.change(r.next("3"))
		thief.Node.SecretID = "another"
		if _, err := s.Change(t.Context(), thief); !errdefs.IsPermissionDenied(err) {
			t.Errorf("another secret: %v", err)
		}
		for _, c := range []*model.NodeChange{nil, {}} {
			if _, err := s.Change(t.Context(), c); !errdefs.IsInvalidArgument(err) {
				t.Errorf("an empty change: %v", err)
			}
		}
		s.attributes(t, "2")
	})
}

// TestARegistrationThatComesLateChangesNothing: the state is again what it was when the
// late one was sent, so only its number tells that it is old.
func TestARegistrationThatComesLateChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, t.Context())
		r := newReporter(t, s)
		late := r.next("1") // on its way
		change := r.change(late)
		for _, value := range []string{"2", "0"} {
			now := r.next(value)
			lease, err := s.Register(t.Context(), now)
			r.answered(now, lease, err)
		}
		if _, err := s.Change(t.Context(), change); !errdefs.IsAborted(err) {
			t.Errorf("a late change: %v", err)
		}
		if _, err := s.Register(t.Context(), late); !errdefs.IsAborted(err) {
			t.Errorf("a late registration: %v", err)
		}
		s.attributes(t, "0")
		// The agent starts again, and its numbers begin anew.
		time.Sleep(20 * time.Second) // of the test's own clock: a lease ends
		n := r.next("3")
		n.Instance, n.Number = "j", 1
		lease, err := s.Register(t.Context(), n)
		r.answered(n, lease, err)
		s.attributes(t, "3")
	})
}

// TestAnyServerTakesAChange: the version is of the content, so neither a new leader nor a
// server that started anew needs to be told all.
func TestAnyServerTakesAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := start(t, t.Context())
		r := newReporter(t, first)
		second := start(t, t.Context(), func(cfg *dispatch.Config) { cfg.Store, cfg.Raft = first.store, first.log })
		second.store = first.store
		synctest.Wait() // it leads
		now := r.next("1")
		lease, err := second.Change(t.Context(), r.change(now))
		r.answered(now, lease, err)
		second.attributes(t, "1")
	})
}

// TestAfterTheLevelHasRisenTheNodeSendsAll: at the lower one not all of it was stored.
func TestAfterTheLevelHasRisenTheNodeSendsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, t.Context())
		r := newReporter(t, s)
		s.log.write(t, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
		s.log.write(t, &fsm.RaiseLevel{Level: 2})
		now := r.next("1")
		if _, err := s.Change(t.Context(), r.change(now)); !errdefs.IsAborted(err) {
			t.Errorf("a change from before the level: %v", err)
		}
	})
}
