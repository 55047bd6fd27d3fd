// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

// BenchmarkPlan encodes, decodes and applies a plan of 1,000 allocs; the figures
// are per plan.
func BenchmarkPlan(b *testing.B) {
	w := newWorld(1)
	f := newFSM()
	mustApply(b, f, &fsm.UpsertJob{Job: testJob("web", 1000)})
	plan := func() *fsm.ApplyPlan {
		res, metrics := testResources(100, 64), &model.AllocMetric{NodesEvaluated: 500}
		c := &fsm.ApplyPlan{EvalID: w.id(), UpdatedAt: 1}
		for i := range 1000 {
			c.Placed = append(c.Placed, &model.Allocation{
				ID: w.id(), Namespace: "default", EvalID: c.EvalID, Name: model.AllocName("web", "web", i), NodeID: w.id(), NodeName: "node",
				JobID: "web", TaskGroup: "web", AllocatedResources: res, Metrics: metrics, DesiredStatus: "run", ClientStatus: "pending",
			})
		}
		return c
	}
	var size int
	b.Run("encode", func(b *testing.B) {
		c := plan()
		for b.Loop() {
			data, err := fsm.Encode(c)
			if err != nil {
				b.Fatal(err)
			}
			size = len(data)
		}
		b.ReportMetric(float64(size)/1000, "bytes/alloc")
	})
	b.Run("apply", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			data, err := fsm.Encode(plan())
			if err != nil {
				b.Fatal(err)
			}
			index := f.Store().View().Index() + 1
			b.StartTimer()
			if r := f.ApplyBatch([]fsm.Entry{{Index: index, Data: data}}); r[0] != nil {
				b.Fatal(r[0])
			}
		}
	})
}
