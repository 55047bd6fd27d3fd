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
	var nodes []string
	for range 1000 {
		nodes = append(nodes, w.id())
		mustApply(b, f, &fsm.RegisterNode{Node: &model.Node{ID: nodes[len(nodes)-1], Status: model.NodeStatusReady}})
	}
	plan := func() *fsm.ApplyPlan {
		res, metrics := testResources(100, 64), &model.AllocMetric{NodesEvaluated: 500}
		at := f.Store().View().Index()
		c := &model.Plan{EvalID: w.id(), Namespace: "default", JobID: "web", SnapshotIndex: at}
		for i := range 1000 {
			c.Place = append(c.Place, &model.Allocation{
				ID: w.id(), Name: model.AllocName("web", "web", i), NodeID: nodes[i], NodeName: "node",
				TaskGroup: "web", AllocatedResources: res, Metrics: metrics,
			})
		}
		return &fsm.ApplyPlan{Plan: c, VerifiedIndex: at, UpdatedAt: 1}
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
