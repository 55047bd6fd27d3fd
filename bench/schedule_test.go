// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
)

// emptyCluster is a schedule.View of n empty nodes in 75 racks and one new job.
type emptyCluster struct {
	nodes []*model.Node
	byID  map[string]*model.Node
	fleet *model.Fleet
	job   *model.Job
	cfg   model.SchedulerConfiguration
}

func (c *emptyCluster) Index() uint64                                      { return 1 }
func (c *emptyCluster) JobByID(string, string) *model.Job                  { return c.job }
func (c *emptyCluster) JobByVersion(string, string, uint64) *model.Job     { return c.job }
func (c *emptyCluster) AllocByID(string) *model.Allocation                 { return nil }
func (c *emptyCluster) AllocsByJob(string, string) []*model.Allocation     { return nil }
func (c *emptyCluster) AllocsByNode(string) []*model.Allocation            { return nil }
func (c *emptyCluster) NodeByID(id string) *model.Node                     { return c.byID[id] }
func (c *emptyCluster) LatestDeployment(string, string) *model.Deployment  { return nil }
func (c *emptyCluster) SchedulerConfig() *model.SchedulerConfiguration     { return &c.cfg }
func (c *emptyCluster) NamespaceByName(string) *model.Namespace            { return nil }
func (c *emptyCluster) NodePoolByName(string) *model.NodePool              { return nil }
func (c *emptyCluster) NodeUsed(string) (int64, int64, int64)              { return 0, 0, 0 }
func (c *emptyCluster) Fleet() *model.Fleet                                { return c.fleet }
func (c *emptyCluster) JobOf(*model.Allocation) *model.Job                 { return c.job }
func (c *emptyCluster) HostVolumeByID(string) *model.HostVolume            { return nil }
func (c *emptyCluster) HostVolumesByNode(string) []*model.HostVolume       { return nil }
func (c *emptyCluster) CSIVolumeByID(_, _ string) *model.CSIVolume         { return nil }
func (c *emptyCluster) CSIVolumeHolders(_, _ string) []*model.Allocation   { return nil }
func (c *emptyCluster) CSIVolumeTwins(*model.CSIVolume) []*model.CSIVolume { return nil }
func (c *emptyCluster) VolumeClaimOf(*model.VolumeClaim) *model.VolumeClaim {
	return nil
}
func (c *emptyCluster) NodesWithUse() iter.Seq2[*model.Node, model.NodeUse] {
	return func(yield func(*model.Node, model.NodeUse) bool) {
		for _, n := range c.nodes {
			if !yield(n, model.NodeUse{}) {
				return
			}
		}
	}
}

func newEmptyCluster(nodes, count int, spread, ports bool) *emptyCluster {
	c := &emptyCluster{byID: map[string]*model.Node{}}
	for i := range nodes {
		n := &model.Node{
			ID: fmt.Sprintf("%08d-0000-0000-0000-000000000000", i), Datacenter: "dc1", NodePool: "default",
			Attributes: map[string]string{"kernel.name": "linux", "driver.raw_exec": "1"}, Meta: map[string]string{"rack": fmt.Sprint("r", i%75)},
			Status: model.NodeStatusReady, SchedulingEligibility: model.NodeSchedulingEligible,
			NodeResources: &model.NodeResources{
				Cpu: model.NodeCpuResources{CpuShares: 14000}, Memory: model.NodeMemoryResources{MemoryMB: 32000}, Disk: model.NodeDiskResources{DiskMB: 100000},
				NodeNetworks: []*model.NodeNetworkResource{{Addresses: []model.NodeNetworkAddress{{Alias: "default", Address: "10.0.0.1"}}}},
			},
		}
		n.ComputedClass = n.ComputeClass()
		c.nodes = append(c.nodes, n)
		c.byID[n.ID] = n
	}
	c.fleet = model.NewFleet(slices.Clone(c.nodes))
	tg := &model.TaskGroup{Name: "g", Count: count, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Resources: &model.Resources{CPU: 600, MemoryMB: 100}}}}
	if ports {
		tg.Networks = []*model.NetworkResource{{DynamicPorts: []model.Port{{Label: "http"}}}}
	}
	c.job = &model.Job{
		ID: "job", Namespace: "default", Type: model.JobTypeService, Datacenters: []string{"*"}, NodePool: "default", TaskGroups: []*model.TaskGroup{tg},
		Constraints: []*model.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "linux"}},
	}
	if spread {
		c.job.Spreads = []*model.Spread{{Attribute: "${meta.rack}", Weight: 100}}
	}
	return c
}

type numbers struct{ n int }

func (i *numbers) NewID() string { i.n++; return fmt.Sprintf("%08d-1111-0000-0000-000000000000", i.n) }

// BenchmarkScheduleJob decides one evaluation of a new job with 1,200 allocs:
// reconcile, feasibility, ranking and the plan; no state, no log.
func BenchmarkScheduleJob(b *testing.B) {
	for _, nodes := range []int{5000, 10000} {
		for _, v := range []struct {
			name          string
			spread, ports bool
		}{{"binpack", false, false}, {"spread75racks", true, false}, {"ports", false, true}} {
			b.Run(fmt.Sprintf("nodes=%d/%s", nodes, v.name), func(b *testing.B) {
				c := newEmptyCluster(nodes, 1200, v.spread, v.ports)
				now := time.Unix(1_700_000_000, 0)
				eval := &model.Evaluation{ID: "e", Namespace: "default", JobID: "job", Type: model.JobTypeService}
				b.ReportAllocs()
				for b.Loop() {
					if o := schedule.Process(c, eval, now, &numbers{}); o.QueuedAllocations["g"] != 0 {
						b.Fatalf("%d allocs were not placed", o.QueuedAllocations["g"])
					}
				}
			})
		}
	}
}

// BenchmarkScheduleOnState decides the same evaluation on the tables of
// core/state, every node running one alloc of another job already.
func BenchmarkScheduleOnState(b *testing.B) {
	const nodes = 5000
	c := newEmptyCluster(nodes, 1200, false, false)
	store := state.New()
	err := store.Update(10, func(tx *state.Tx) error {
		other := *c.job
		other.ID, other.Constraints = "other", nil
		tx.UpsertJob(&other, nil)
		tx.UpsertJob(c.job, nil)
		for i, n := range c.nodes {
			tx.RegisterNode(n)
			tx.PlaceAlloc(&model.Allocation{
				ID: fmt.Sprintf("%08d-2222-0000-0000-000000000000", i), Namespace: "default", JobID: "other", TaskGroup: "g", NodeID: n.ID,
				DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusRunning,
				AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"t": {
					Cpu: model.AllocatedCpuResources{CpuShares: 100}, Memory: model.AllocatedMemoryResources{MemoryMB: 64},
				}}},
			}, 1)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	view, now := store.View(), time.Unix(1_700_000_000, 0)
	eval := &model.Evaluation{ID: "e", Namespace: "default", JobID: "job", Type: model.JobTypeService}
	b.ReportAllocs()
	for b.Loop() {
		if o := schedule.Process(view, eval, now, &numbers{}); o.QueuedAllocations["g"] != 0 {
			b.Fatalf("%d allocs were not placed", o.QueuedAllocations["g"])
		}
	}
}

// BenchmarkFleet measures what the first evaluation after a change of nodes pays for all that
// follow: one of 10,000 nodes has changed, or has joined.
func BenchmarkFleet(b *testing.B) {
	const nodes = 10_000
	for _, joins := range []bool{false, true} {
		b.Run(map[bool]string{false: "changed", true: "joined"}[joins], func(b *testing.B) {
			c, store := newEmptyCluster(nodes, 1, false, false), state.New()
			index := uint64(10)
			update := func(f func(tx *state.Tx)) {
				index++
				if err := store.Update(index, func(tx *state.Tx) error { f(tx); return nil }); err != nil {
					b.Fatal(err)
				}
			}
			update(func(tx *state.Tx) {
				for _, n := range c.nodes {
					tx.RegisterNode(n)
				}
			})
			store.View().Fleet()
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				n := c.nodes[int(index)%nodes].Copy()
				if joins {
					n.ID = fmt.Sprintf("%08d-0000-0000-0001-000000000000", index)
				}
				update(func(tx *state.Tx) { tx.RegisterNode(n) })
				view := store.View()
				b.StartTimer()
				view.Fleet()
			}
		})
	}
}
