// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
)

// BenchmarkPreempt decides one evaluation of a new job with 1,200 allocs on the tables of
// core/state, where 5,000 nodes are full of eight allocs each. They belong to 40 jobs of
// 20 priorities that the new job may preempt, so every node has another mix of them.
func BenchmarkPreempt(b *testing.B) {
	const nodes, each, jobs = 5000, 8, 40
	for _, v := range []struct {
		name          string
		spread, ports bool
	}{{"plain", false, false}, {"spread75racks", true, false}, {"ports", false, true}} {
		b.Run(v.name, func(b *testing.B) {
			c := newEmptyCluster(nodes, 1200, v.spread, v.ports)
			c.job.Priority = 80
			store := state.New()
			err := store.Update(10, func(tx *state.Tx) error {
				tx.UpsertJob(c.job, nil)
				for j := range jobs {
					low := *c.job
					low.ID, low.Priority, low.Constraints, low.Spreads = fmt.Sprint("low", j), 20+j/2, nil, nil
					tx.UpsertJob(&low, nil)
				}
				cfg := c.cfg
				cfg.PreemptionConfig.ServiceSchedulerEnabled = true
				tx.SetSchedulerConfig(&cfg)
				shared := &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"t": {
					Cpu: model.AllocatedCpuResources{CpuShares: 14000 / each}, Memory: model.AllocatedMemoryResources{MemoryMB: 64},
				}}}
				for i, n := range c.nodes {
					tx.RegisterNode(n)
					for k := range each {
						tx.PlaceAlloc(&model.Allocation{
							ID: fmt.Sprintf("%08d-2222-%04d-0000-000000000000", i, k), Namespace: "default", JobID: fmt.Sprint("low", (i*7+k*3)%jobs), TaskGroup: "g", NodeID: n.ID,
							DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusRunning, AllocatedResources: shared,
						}, 1)
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			view, now := store.View(), time.Unix(1_700_000_000, 0)
			eval := &model.Evaluation{ID: "e", Namespace: "default", JobID: "job", Type: model.JobTypeService}
			b.ReportAllocs()
			evicted := 0
			for b.Loop() {
				o := schedule.Process(view, eval, now, &numbers{})
				if evicted = len(o.Plan.Change); o.QueuedAllocations["g"] != 0 || evicted == 0 {
					b.Fatalf("%d allocs were not placed, %d are preempted", o.QueuedAllocations["g"], evicted)
				}
			}
			b.ReportMetric(float64(evicted), "preempted")
		})
	}
}
