// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package bench_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/state"
)

// heard is the controller of deployments; it tells of every decision.
type heard struct {
	deploy.Controller
	decided chan string
}

func (h heard) Decide(in control.Input, id string) (control.Decision, error) {
	defer func() { h.decided <- id }()
	return h.Controller.Decide(in, id)
}

// rollouts is a state with running deployments of ten allocs each.
type rollouts struct {
	b     *testing.B
	store *state.Store
	log   *memoryLog
}

const allocsEach = 10

func rolloutID(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-00000000dddd", i) }

func newRollouts(b *testing.B, n int) *rollouts {
	b.Helper()
	store := state.New()
	r := &rollouts{b: b, store: store, log: &memoryLog{index: 10, fsm: fsm.New(store, hclog.NewNullLogger())}}
	r.propose(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	r.propose(&fsm.RaiseLevel{Level: fsm.Level})
	now := time.Now()
	for i := 0; i < 100; i++ {
		node := &model.Node{ID: fmt.Sprintf("node-%04d", i), Datacenter: "dc1", NodePool: "default", Status: model.NodeStatusReady, SchedulingEligibility: "eligible"}
		r.propose(&fsm.RegisterNode{Node: node})
	}
	for from := 0; from < n; from += 500 {
		r.log.index++
		err := store.Update(r.log.index, func(tx *state.Tx) error {
			for i := from; i < min(n, from+500); i++ {
				r.add(tx, i, now)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return r
}

func (r *rollouts) propose(cmds ...fsm.Command) {
	r.b.Helper()
	if _, err := propose.Commands(context.Background(), r.log, cmds...); err != nil {
		r.b.Fatal(err)
	}
}

// add adds a job with a deployment that is under way.
func (r *rollouts) add(tx *state.Tx, i int, now time.Time) {
	job := &model.Job{
		ID: fmt.Sprint("job", i), Namespace: "default", Type: model.JobTypeService, Datacenters: []string{"*"}, NodePool: "default", Status: model.JobStatusRunning,
		TaskGroups: []*model.TaskGroup{{
			Name: "g", Count: allocsEach, Update: &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: time.Hour},
			Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Resources: &model.Resources{CPU: 10, MemoryMB: 10}}},
		}},
	}
	tx.UpsertJob(job, nil)
	tx.UpsertDeployment(&model.Deployment{
		ID: rolloutID(i), Namespace: "default", JobID: job.ID, Status: model.DeploymentStatusRunning,
		TaskGroups: map[string]*model.DeploymentState{"g": {DesiredTotal: allocsEach, ProgressDeadline: time.Hour, RequireProgressBy: now.Add(time.Hour)}},
	}, now.UnixNano())
	for k := range allocsEach {
		tx.PlaceAlloc(&model.Allocation{
			ID: fmt.Sprintf("%08d-0000-4000-8000-%012d", i, k), Namespace: "default", JobID: job.ID, TaskGroup: "g", Name: fmt.Sprintf("%s.g[%d]", job.ID, k),
			NodeID: fmt.Sprintf("node-%04d", (i+k)%100), DeploymentID: rolloutID(i), DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusPending,
			AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"t": {Cpu: model.AllocatedCpuResources{CpuShares: 10}}}},
		}, now.UnixNano())
	}
}

// report is what a node tells of one alloc: its task was started at a new time.
func (r *rollouts) report(i, k int, at time.Time) {
	a := &model.Allocation{
		ID: fmt.Sprintf("%08d-0000-4000-8000-%012d", i, k), ClientStatus: model.AllocClientStatusRunning, DeploymentID: rolloutID(i),
		TaskStates: map[string]*model.TaskState{"t": {State: "running", StartedAt: &at}},
	}
	r.propose(&fsm.UpdateAllocsFromClient{At: at.UnixNano(), Reports: []*model.AllocReport{a.ReportSince(nil)}})
}

// BenchmarkWatcher runs the controller of deployments beside 1 to 10,000 deployments that
// are under way, and reports one alloc after the other. The cost of an update is the
// processor time of this process from the report to the decision, and beside it without
// the controller, which is what the state alone needs.
func BenchmarkWatcher(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("deployments=%d", n), func(b *testing.B) { watch(b, n) })
	}
}

func watch(b *testing.B, n int) {
	const updates = 4000
	r := newRollouts(b, n)
	at := time.Now()
	report := func(u int) {
		at = at.Add(time.Millisecond)
		r.report(u%n, u/n%allocsEach, at)
	}
	for u := range n * allocsEach { // each alloc has been reported before
		report(u)
	}
	alone := processorTime(b, updates, report)

	heap, goroutines := heapInUse(), runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	c := heard{decided: make(chan string, n)}
	loops := control.NewLoops(r.store, r.log, uuid.NewString, hclog.NewNullLogger())
	var wg sync.WaitGroup
	wg.Go(func() { loops.Run(ctx, c) })
	for range n {
		<-c.decided
	}
	report(0) // the first decisions are settled when the next one is taken
	<-c.decided
	heapAfter, goroutinesAfter := heapInUse(), runtime.NumGoroutine()
	var watched time.Duration
	for b.Loop() {
		watched = processorTime(b, updates, func(u int) { report(u); <-c.decided })
	}
	cancel()
	wg.Wait()
	b.ReportMetric(float64(watched.Nanoseconds())/updates/1000, "us/update")
	b.ReportMetric(float64(alone.Nanoseconds())/updates/1000, "us/update-alone")
	b.ReportMetric(float64((watched-alone).Nanoseconds())/updates/1000, "us/decision")
	b.ReportMetric(float64(goroutinesAfter-goroutines), "goroutines")
	b.ReportMetric(float64(heapAfter-heap)/float64(n), "B/deployment")
	b.ReportMetric(0, "ns/op")
}

// processorTime returns the processor time of this process for a number of steps.
func processorTime(b *testing.B, steps int, step func(i int)) time.Duration {
	b.Helper()
	runtime.GC()
	before := usage(b)
	for i := range steps {
		step(i)
	}
	return usage(b) - before
}

func usage(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heapInUse returns the bytes of all living objects.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
