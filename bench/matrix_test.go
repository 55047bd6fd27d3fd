// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package bench_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
)

var (
	matrixNodes  = []int{500, 1000, 5000, 10_000}
	matrixRacks  = []int{25, 50, 75}
	matrixAllocs = []int{50, 300, 600, 900, 1200}
)

// cell is one case of the matrix.
type cell struct {
	took   time.Duration // the least of the rounds
	placed float64       // bytes allocated per placement, the median of the rounds
}

// matrixCluster is a state of n nodes in some racks with the jobs of the matrix. On a
// half-full one, half of the processor of each node is in use, by four allocs.
func matrixCluster(b *testing.B, n, racks int, half bool) *state.Store {
	b.Helper()
	c := newEmptyCluster(n, 1, false, false)
	store := state.New()
	err := store.Update(10, func(tx *state.Tx) error {
		other := *c.job
		other.ID, other.Constraints = "other", nil
		tx.UpsertJob(&other, nil)
		for _, spread := range []bool{false, true} {
			for _, count := range matrixAllocs {
				tx.UpsertJob(matrixJob(c.job, count, spread), nil)
			}
		}
		for i, node := range c.nodes {
			node.Meta = map[string]string{"rack": fmt.Sprint("r", i%racks)}
			node.ComputedClass = node.ComputeClass()
			tx.RegisterNode(node)
			for k := 0; half && k < 4; k++ {
				tx.PlaceAlloc(&model.Allocation{
					ID: fmt.Sprintf("%08d-2222-0000-0000-%012d", i, k), Namespace: "default", JobID: "other", TaskGroup: "g", NodeID: node.ID,
					DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusRunning,
					AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"t": {
						Cpu: model.AllocatedCpuResources{CpuShares: 1750}, Memory: model.AllocatedMemoryResources{MemoryMB: 64},
					}}},
				}, 1)
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return store
}

func matrixID(count int, spread bool) string { return fmt.Sprintf("job-%d-%v", count, spread) }

func matrixJob(like *model.Job, count int, spread bool) *model.Job {
	job := *like
	tg := *like.TaskGroups[0]
	tg.Count = count
	job.ID, job.TaskGroups, job.Spreads = matrixID(count, spread), []*model.TaskGroup{&tg}, nil
	if spread {
		job.Spreads = []*model.Spread{{Attribute: "${meta.rack}", Weight: 100}}
	}
	return &job
}

// measure decides one evaluation several times.
func measure(b *testing.B, view *state.View, count int, spread bool, rounds int) cell {
	b.Helper()
	now := time.Unix(1_700_000_000, 0)
	eval := &model.Evaluation{ID: "e", Namespace: "default", JobID: matrixID(count, spread), Type: model.JobTypeService}
	out, placed := cell{took: math.MaxInt64}, make([]float64, rounds)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for round := range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := threadTime(b)
		o := schedule.Process(view, eval, now, &numbers{})
		took := threadTime(b) - start
		runtime.ReadMemStats(&after)
		if o.QueuedAllocations["g"] != 0 {
			b.Fatalf("%d allocs were not placed", o.QueuedAllocations["g"])
		}
		if took < out.took {
			out.took = took
		}
		placed[round] = float64(after.TotalAlloc-before.TotalAlloc) / float64(count)
	}
	slices.Sort(placed)
	out.placed = placed[rounds/2]
	return out
}

// threadTime returns the processor time of this thread. On a loaded machine it says more
// than the clock on the wall, and it leaves out the garbage collector's own threads.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		b.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// BenchmarkScheduleMatrix decides one evaluation of a new job in 120 cases (nodes, racks,
// allocs, spread over the racks or not), on empty and on half-full clusters, on the state's
// tables. It prints a table of the least of each case's rounds, in ms of processor time. Its metrics are the
// worst of all cases: how much more twice the allocs or twice the nodes take, and the bytes
// allocated per placement with 300 allocs and more.
func BenchmarkScheduleMatrix(b *testing.B) {
	const rounds = 50
	for b.Loop() {
		m := map[string]cell{}
		key := func(nodes, racks, allocs int, spread, half bool) string {
			return fmt.Sprint(nodes, racks, allocs, spread, half)
		}
		var table strings.Builder
		fmt.Fprintf(&table, "\n| nodes | racks | spread | cluster |%s\n|---|---|---|---|%s\n", columns(), strings.Repeat("---|", len(matrixAllocs)))
		for _, half := range []bool{false, true} {
			for _, nodes := range matrixNodes {
				for _, racks := range matrixRacks {
					view := matrixCluster(b, nodes, racks, half).View()
					for _, spread := range []bool{false, true} {
						fmt.Fprintf(&table, "| %d | %d | %s | %s |", nodes, racks, map[bool]string{false: "no", true: "yes"}[spread], map[bool]string{false: "empty", true: "half full"}[half])
						for _, allocs := range matrixAllocs {
							c := measure(b, view, allocs, spread, rounds)
							m[key(nodes, racks, allocs, spread, half)] = c
							fmt.Fprintf(&table, " %.2f |", float64(c.took.Microseconds())/1000)
						}
						table.WriteString("\n")
					}
				}
			}
		}
		worst := map[string]float64{}
		note := func(name string, of float64) { worst[name] = max(worst[name], of) }
		ratio := func(much, little cell) float64 { return float64(much.took) / float64(little.took) }
		for _, half := range []bool{false, true} {
			for _, racks := range matrixRacks {
				for _, spread := range []bool{false, true} {
					for _, nodes := range matrixNodes {
						at := func(allocs int) cell { return m[key(nodes, racks, allocs, spread, half)] }
						note("x-allocs-300-to-600", ratio(at(600), at(300)))
						note("x-allocs-600-to-1200", ratio(at(1200), at(600)))
						for _, allocs := range matrixAllocs[1:] {
							note("B/placement", at(allocs).placed)
						}
						note("B/placement-1200", at(1200).placed)
					}
					for _, allocs := range matrixAllocs {
						at := func(nodes int) cell { return m[key(nodes, racks, allocs, spread, half)] }
						note("x-nodes-500-to-1000", ratio(at(1000), at(500)))
						note("x-nodes-5000-to-10000", ratio(at(10_000), at(5000)))
					}
				}
			}
		}
		for name, of := range worst {
			b.ReportMetric(of, name)
		}
		b.ReportMetric(0, "ns/op")
		fmt.Println(table.String()) // a log of a benchmark is cut off after ten lines
	}
}

// columns are the headings of the table.
func columns() (out string) {
	for _, n := range matrixAllocs {
		out += fmt.Sprintf(" %d allocs |", n)
	}
	return out
}
