// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

// A plan carries what it changes: a placement is not a whole alloc with its job and its
// resources, and an update in place names only the version.
func TestAPlanIsStoredByWhatItChanges(t *testing.T) {
	const n = 200
	w := newWorld(1)
	res, metrics := testResources(100, 64), &model.AllocMetric{NodesEvaluated: 500}
	base := model.Plan{EvalID: w.id(), Namespace: "default", JobID: "web", SnapshotIndex: 9}
	placing, updating, stopping := base, base, base
	for i := range n {
		id := w.id()
		placing.Place = append(placing.Place, &model.Allocation{
			ID: id, Name: model.AllocName("web", "web", i), NodeID: w.id(), NodeName: "node", TaskGroup: "web", AllocatedResources: res, Metrics: metrics,
		})
		updating.Change = append(updating.Change, model.AllocChange{Kind: model.AllocUpdateInPlace, AllocID: id, JobVersion: 3})
		stopping.Change = append(stopping.Change, model.AllocChange{Kind: model.AllocStop, AllocID: id, Description: "alloc not needed due to job update"})
	}
	for name, c := range map[string]struct {
		plan *model.Plan
		most int
	}{"a placement": {&placing, 80}, "an update in place": {&updating, 60}, "a stop": {&stopping, 100}} {
		data, err := fsm.Encode(&fsm.ApplyPlan{Plan: c.plan, VerifiedIndex: 9, UpdatedAt: 1})
		if err != nil {
			t.Fatal(err)
		}
		if size := len(data) / n; size > c.most {
			t.Errorf("%s takes %d bytes of the log, want %d at most", name, size, c.most)
		} else {
			t.Logf("%s: %d bytes", name, size)
		}
	}
}
