// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

func TestAPluginThatFlapsDoesNotPushOutOtherEvents(t *testing.T) {
	s := state.New()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	registers := func(events ...*model.NodeEvent) {
		update(t, s, func(tx *state.Tx) error {
			tx.RegisterNode(&model.Node{ID: "n1", Status: model.NodeStatusReady, StatusUpdatedAt: at.Unix(), Events: events})
			return nil
		})
	}
	for i := range 100 {
		e := &model.NodeEvent{Subsystem: "Plugin", Message: fmt.Sprintf("failure %d", i), Timestamp: at.Add(time.Duration(i) * time.Second), Details: map[string]string{model.NodeEventPlugin: "flaps"}}
		if i%20 == 5 {
			e.Message, e.Details[model.NodeEventPlugin] = fmt.Sprintf("other %d", i), "other"
		}
		registers(e)
	}
	var got []string
	for _, e := range s.View().NodeByID("n1").Events {
		got = append(got, e.Message)
	}
	if len(got) != model.MaxNodeEvents || got[0] != "Node registered" || got[len(got)-1] != "failure 99" {
		t.Fatalf("events %q", got)
	}
	for _, want := range []string{"other 45", "other 65", "other 85"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q was pushed out of %q", want, got)
		}
	}
}

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
