// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
)

func TestANodeKeepsWhyItWasDrained(t *testing.T) {
	c := testkit.Start(t)
	n := c.Node(nil)
	c.Run("a", 1) // has no other node, so that the drain goes on
	start := time.Date(2026, 11, 29, 1, 0, 0, 0, time.UTC)
	now := start
	e := at(c, &now)
	drain := func(spec *api.DrainSpec, meta map[string]string) *model.DrainMetadata {
		t.Helper()
		if _, err := e.DrainNode(t.Context(), &api.NodeDrainRequest{NodeID: n.ID, DrainSpec: spec, Meta: meta}); err != nil {
			t.Fatal(err)
		}
		defer func() { now = now.Add(time.Minute) }()
		return c.Store.View().NodeByID(n.ID).LastDrain
	}
	ended := func(sent map[string]string) *model.DrainMetadata { return drain(nil, sent) }
	why := map[string]string{"message": "a new kernel"}
	long := &api.DrainSpec{} // without a deadline, which the clock of the cluster would have passed

	if got := ended(map[string]string{"message": "none"}); got != nil {
		t.Errorf("a node that does not drain has %+v", got)
	}
	now = start
	for _, step := range []struct {
		name string
		got  *model.DrainMetadata
		want model.DrainMetadata
	}{
		{"started", drain(long, why), model.DrainMetadata{StartedAt: start, UpdatedAt: start, Status: "draining", Meta: why}},
		{"changed", drain(long, nil), model.DrainMetadata{StartedAt: start, UpdatedAt: start.Add(time.Minute), Status: "draining", Meta: why}},
		{"canceled", ended(nil), model.DrainMetadata{StartedAt: start, UpdatedAt: start.Add(2 * time.Minute), Status: "canceled", Meta: why}},
		{"ended already", ended(nil), model.DrainMetadata{StartedAt: start, UpdatedAt: start.Add(2 * time.Minute), Status: "canceled", Meta: why}},
	} {
		if step.got == nil || !reflect.DeepEqual(*step.got, step.want) {
			t.Errorf("%s: %+v, want %+v", step.name, step.got, step.want)
		}
	}
}
