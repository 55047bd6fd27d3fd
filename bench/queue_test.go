// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/core/worker"
)

// memoryLog applies every entry at once, as a server alone in its cluster does without a
// disk.
type memoryLog struct {
	mu    sync.Mutex
	index uint64
	fsm   *fsm.FSM
}

func (l *memoryLog) Propose(_ context.Context, data []byte) (uint64, any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	answer := l.fsm.ApplyBatch([]fsm.Entry{{Index: l.index, Data: data}})[0]
	if err, ok := answer.(error); ok {
		return l.index, nil, err
	}
	return l.index, answer, nil
}

type newIDs struct{ n atomic.Int64 }

func (i *newIDs) NewID() string { return fmt.Sprintf("%08d-0000-0000-0000-000000000000", i.n.Add(1)) }

// tenants is the scheduling side of a leader: state, queue, workers and applier.
type tenants struct {
	b      *testing.B
	log    *memoryLog
	store  *state.Store
	broker *queue.Broker
	ids    newIDs
}

func newTenants(b *testing.B) *tenants {
	b.Helper()
	store := state.New()
	s := &tenants{b: b, store: store, broker: queue.NewBroker(queue.Config{Lanes: worker.Lanes{Store: store}})}
	s.log = &memoryLog{index: 10, fsm: fsm.New(store, hclog.NewNullLogger())}
	blocked := queue.NewBlocked(s.broker.Enqueue)
	applier := plan.NewApplier(func() plan.View { return store.View() }, s.log, time.Now)
	feeder := &worker.Feeder{Store: store, Broker: s.broker, Blocked: blocked, Logger: hclog.NewNullLogger()}
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	for _, run := range []func(context.Context){applier.Run, s.broker.Run, feeder.Run} {
		parts.Go(func() { run(ctx) })
	}
	for range 2 {
		w := worker.New(worker.Config{
			Broker: s.broker, Blocked: blocked, Applier: applier, Log: s.log, View: func() worker.View { return store.View() },
			WaitFor: worker.WaitForIndex(store), IDs: &s.ids, Now: time.Now, Logger: hclog.NewNullLogger(),
		})
		parts.Go(func() { w.Run(ctx, ctx) })
	}
	b.Cleanup(func() { cancel(); parts.Wait() })
	s.propose(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	s.propose(&fsm.RaiseLevel{Level: fsm.Level})
	for i := range 500 {
		n := &model.Node{
			ID: fmt.Sprintf("node-%04d", i), Datacenter: "dc1", NodePool: "default", Status: model.NodeStatusReady, SchedulingEligibility: "eligible",
			Attributes: map[string]string{"driver.raw_exec": "1"},
			NodeResources: &model.NodeResources{
				Cpu: model.NodeCpuResources{CpuShares: 1e6}, Memory: model.NodeMemoryResources{MemoryMB: 1e6}, Disk: model.NodeDiskResources{DiskMB: 1e6},
			},
		}
		n.ComputedClass = n.ComputeClass()
		s.propose(&fsm.RegisterNode{Node: n})
	}
	return s
}

func (s *tenants) propose(cmds ...fsm.Command) {
	s.b.Helper()
	if _, err := propose.Commands(context.Background(), s.log, cmds...); err != nil {
		s.b.Fatal(err)
	}
}

func (s *tenants) namespace(name string, weight int) {
	s.propose(&fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: name, SchedulerConfiguration: &model.NamespaceSchedulerConfiguration{Queue: &model.QueueConfiguration{Weight: weight}}}}})
}

// hook registers a parameterized job of which a child has one alloc.
func (s *tenants) hook(ns string) {
	s.propose(&fsm.UpsertJob{Job: &model.Job{
		ID: "hook", Name: "hook", Namespace: ns, Type: model.JobTypeBatch, Priority: 50, Datacenters: []string{"*"}, NodePool: "default", ParameterizedJob: &model.ParameterizedJobConfig{},
		TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Resources: &model.Resources{CPU: 100, MemoryMB: 10}}}}},
	}})
}

func (s *tenants) dispatch(ns, child string) *fsm.DispatchJob {
	return &fsm.DispatchJob{Namespace: ns, ParentID: "hook", ChildID: child, SubmitTime: 1, Eval: &model.Evaluation{
		ID: s.ids.NewID(), Namespace: ns, JobID: child, Type: model.JobTypeBatch, Priority: 50, Status: model.EvalStatusPending, TriggeredBy: model.EvalTriggerJobRegister,
	}}
}

// BenchmarkOneTenantBesideAFlood measures how long a single job waits until it is placed
// while another tenant has 100,000 dispatches in the queue, in a namespace of its own and,
// for comparison, in the same one; and how many evaluations of others are taken meanwhile,
// which does not depend on the machine. The log is in memory, with 500 nodes and two workers.
//
//	go test ./bench -run '^$' -bench OneTenantBesideAFlood -benchtime 1x
func BenchmarkOneTenantBesideAFlood(b *testing.B) {
	for _, c := range []struct {
		name, namespace string
		jobs            int
	}{{"own-namespace", "quiet", 300}, {"same-namespace", "loud", 1}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				s := newTenants(b)
				s.namespace("loud", 1)
				s.namespace("quiet", 1)
				s.hook("loud")
				s.hook("quiet")
				s.flood("loud", 100_000)
				var waits []time.Duration
				var before []uint64
				for i := range c.jobs {
					others := s.served("loud")
					waits = append(waits, s.single(c.namespace, fmt.Sprint("single-", i)))
					before = append(before, s.served("loud")-others)
				}
				slices.Sort(before)
				left := s.broker.Stats()
				slices.Sort(waits)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(ms(waits[len(waits)/2]), "p50-ms")
				b.ReportMetric(ms(waits[len(waits)*99/100]), "p99-ms")
				b.ReportMetric(ms(waits[len(waits)-1]), "max-ms")
				b.ReportMetric(float64(before[len(before)*99/100]), "p99-others-before")
				b.ReportMetric(float64(left.Ready), "others-left")
			}
		})
	}
}

// flood dispatches n children, many in one entry, while workers place them.
func (s *tenants) flood(ns string, n int) {
	s.b.Helper()
	for i := 0; i < n; i += 500 {
		var cmds []fsm.Command
		for k := i; k < i+500; k++ {
			cmds = append(cmds, s.dispatch(ns, fmt.Sprint("flood-", k)))
		}
		s.propose(cmds...)
	}
}

// single dispatches one child and returns how long it was not placed.
func (s *tenants) single(ns, child string) time.Duration {
	s.b.Helper()
	begin := time.Now()
	s.propose(s.dispatch(ns, child))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for {
		changed := s.store.Watch(ctx, state.Key{Table: state.TableAllocs})
		if len(s.store.View().AllocsByJob(ns, child)) > 0 {
			return time.Since(begin)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s.b.Fatalf("%s is not placed", child)
		}
	}
}

// served returns how many evaluations of a namespace workers have taken.
func (s *tenants) served(ns string) (n uint64) {
	for _, l := range s.broker.Lanes() {
		if l.Namespace == ns {
			n += l.Served
		}
	}
	return n
}

// BenchmarkWeights measures how 100 namespaces with weights from 1 to 10 share the workers
// while all of them have more in the queue than is done: the largest deviation from a
// share, in percent of it.
//
//	go test ./bench -run '^$' -bench Weights -benchtime 1x
func BenchmarkWeights(b *testing.B) {
	const turns = 20 // evaluations per unit of weight until the shares are read
	for b.Loop() {
		s := newTenants(b)
		s.propose(&fsm.SetSchedulerConfig{Config: &model.SchedulerConfiguration{PauseEvalBroker: true}})
		total := 0
		for i := range 100 {
			ns, weight := fmt.Sprintf("ns-%02d", i), 1+i%10
			total += weight * turns
			s.namespace(ns, weight)
			s.hook(ns)
			var cmds []fsm.Command
			for k := range weight*turns + weight*turns/2 + 10 {
				cmds = append(cmds, s.dispatch(ns, fmt.Sprint("child-", k)))
			}
			s.propose(cmds...)
		}
		begin := time.Now()
		s.propose(&fsm.SetSchedulerConfig{Config: &model.SchedulerConfiguration{}})
		var lanes []queue.LaneStats
		done := 0
		for done < total {
			<-s.store.Watch(context.Background(), state.Key{Table: state.TableEvals})
			lanes, done = s.broker.Lanes(), 0
			for _, l := range lanes {
				done += int(l.Served)
			}
		}
		worst := 0.0
		for _, l := range lanes {
			share := float64(done) * float64(l.Weight) / float64(total/turns)
			worst = max(worst, 100*math.Abs(float64(l.Served)-share)/share)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(worst, "worst-deviation-%")
		b.ReportMetric(float64(done)/time.Since(begin).Seconds(), "evals/s")
	}
}
