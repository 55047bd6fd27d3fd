// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// doorman admits whom it is told, and gives each node "id-ID".
type doorman struct{ admits bool }

func (d *doorman) Admit(_ *state.View, n *model.Node, _ time.Time) error {
	if d.admits || n.Token == "intro" {
		return nil
	}
	return errdefs.PermissionDeniedf("not introduced")
}

func (d *doorman) Identity(_ *state.View, n *model.Node, shown string, _ time.Time) (string, error) {
	switch shown {
	case "id-" + n.ID:
		return "", nil
	case "stolen":
		return "", errdefs.PermissionDeniedf("another node's")
	case "unreadable":
		return "", errdefs.Unavailablef("no key yet")
	}
	return "id-" + n.ID, nil
}

func TestANewNodeIsAdmittedOnceAndGetsAnIdentityThatItShowsFromThenOn(t *testing.T) {
	door := &doorman{}
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		n := node(idN1)
		before := s.log.writes.Load()
		if _, err := s.Register(ctx, n); !errdefs.IsPermissionDenied(err) || s.store.View().NodeByID(idN1) != nil || s.log.writes.Load() != before {
			t.Fatalf("a node that is not introduced: %v", err)
		}
		n.Token = "intro"
		lease, err := s.Register(ctx, n)
		if err != nil || lease.Identity != "id-"+idN1 {
			t.Fatalf("an introduced node: %+v, %v", lease, err)
		}
		if stored := s.store.View().NodeByID(idN1); stored.Token != "" {
			t.Error("the token is stored")
		}
		writes := s.log.writes.Load()
		for shown, want := range map[string]string{"id-" + idN1: "", "": "id-" + idN1, "unreadable": ""} { // a known node needs no introduction
			n.Token = shown
			if lease, err = s.Register(ctx, n); err != nil || lease.Identity != want {
				t.Errorf("a known node that shows %q: %q, %v", shown, lease.Identity, err)
			}
		}
		n.Token = "stolen"
		if _, err := s.Register(ctx, n); !errdefs.IsPermissionDenied(err) {
			t.Errorf("the identity of another node: %v", err)
		}
		if got := s.log.writes.Load(); got != writes {
			t.Errorf("%d log entries for nodes that return", got-writes)
		}
	}, func(c *dispatch.Config) { c.Tokens = door })
}
