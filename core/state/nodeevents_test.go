// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

func TestEventsThatANodeReportsAreAddedOnceAndTheNewestStay(t *testing.T) {
	s := state.New()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	event := func(i int) *model.NodeEvent {
		return &model.NodeEvent{Subsystem: "Plugin", Message: fmt.Sprintf("event %d", i), Timestamp: at.Add(time.Duration(i) * time.Second)}
	}
	registers := func(events ...*model.NodeEvent) []*model.NodeEvent {
		t.Helper()
		update(t, s, func(tx *state.Tx) error {
			tx.RegisterNode(&model.Node{ID: "n1", Status: model.NodeStatusReady, StatusUpdatedAt: at.Unix(), Events: events})
			return nil
		})
		return s.View().NodeByID("n1").Events
	}
	if got := registers(event(1)); len(got) != 2 || got[0].Message != "Node registered" || got[1].Message != "event 1" || got[1].CreateIndex == 0 {
		t.Fatalf("events %+v", got)
	}
	// The answer to the first was lost, so it comes again with the next.
	if got := registers(event(1), event(2)); len(got) != 3 || got[2].Message != "event 2" {
		t.Fatalf("events %+v", got)
	}
	if got := registers(); len(got) != 3 {
		t.Fatalf("a registration without news changed the events to %+v", got)
	}
	for i := 3; i < 30; i++ {
		registers(event(i))
	}
	if got := registers(); len(got) != model.MaxNodeEvents || got[len(got)-1].Message != "event 29" {
		t.Fatalf("events %+v", got)
	}
}
