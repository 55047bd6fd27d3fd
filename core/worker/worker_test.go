// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/core/worker"
	"github.com/drover-project/drover/internal/testkit/invariants"
	"github.com/drover-project/drover/internal/testkit/lifecycles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log applies commands at once, in order, as a server alone in its cluster does.
type log struct {
	mu    sync.Mutex
	index uint64
	fsm   *fsm.FSM
	// marks are committed when it is closed: that evaluations are superseded.
	marks chan struct{}
}

func (l *log) Propose(_ context.Context, data []byte) (uint64, any, error) {
	if l.marks != nil && bytes.Contains(data, []byte(worker.DescSuperseded)) {
		<-l.marks
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	answer := l.fsm.ApplyBatch([]fsm.Entry{{Index: l.index, Data: data}})[0]
	if err, ok := answer.(error); ok {
		return l.index, nil, err
	}
	return l.index, answer, nil
}

type ids struct{ n atomic.Int64 }

func (i *ids) NewID() string { return fmt.Sprintf("%08d-0000-0000-0000-000000000000", i.n.Add(1)) }

// leader is the scheduling side of a server on a real state.
type leader struct {
	t       *testing.T
	log     *log
	store   *state.Store
	broker  *queue.Broker
	blocked *queue.Blocked
	applier *plan.Applier
	ids     ids
}

func newLeader(t *testing.T, workers int) *leader {
	store := state.New()
	l := &leader{t: t, store: store, broker: queue.NewBroker(queue.Config{Lanes: worker.Lanes{Store: store}})}
	invariants.AtEnd(t, l.store)
	lifecycles.Check(t, l.store)
	l.log = &log{index: 1, fsm: fsm.New(l.store, hclog.NewNullLogger())}
	l.blocked = queue.NewBlocked(l.broker.Enqueue)
	l.applier = plan.NewApplier(func() plan.View { return l.store.View() }, l.log, time.Now)
	feeder := &worker.Feeder{Store: l.store, Broker: l.broker, Blocked: l.blocked, Logger: hclog.NewNullLogger()}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.applier.Run(ctx) })
	wg.Go(func() { l.broker.Run(ctx) })
	wg.Go(func() { feeder.Run(ctx) })
	wg.Go(func() { l.worker(nil).RunSuperseded(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	l.work(workers, l.applier)
	return l
}

// work has n workers submit their plans to an applier until the test ends.
func (l *leader) work(n int, a worker.Applier) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { l.worker(a).Run(ctx, ctx) })
	}
	l.t.Cleanup(func() { cancel(); wg.Wait() })
}

func (l *leader) worker(applier worker.Applier) *worker.Worker {
	return worker.New(worker.Config{
		Broker: l.broker, Blocked: l.blocked, Applier: applier, Log: l.log,
		View:    func() worker.View { return l.store.View() },
		WaitFor: worker.WaitForIndex(l.store), IDs: &l.ids, Now: time.Now, Logger: hclog.NewNullLogger(),
	})
}

func (l *leader) propose(c fsm.Command) {
	l.t.Helper()
	if _, err := propose.Commands(context.Background(), l.log, c); err != nil {
		l.t.Fatal(err)
	}
}

func (l *leader) node(id string, cpu int64) {
	n := &model.Node{
		ID: id, Name: id, Datacenter: "dc1", NodePool: "default", Status: model.NodeStatusReady, SchedulingEligibility: "eligible",
		Attributes: map[string]string{"driver.raw_exec": "1"},
		NodeResources: &model.NodeResources{
			Cpu: model.NodeCpuResources{CpuShares: cpu}, Memory: model.NodeMemoryResources{MemoryMB: 100000}, Disk: model.NodeDiskResources{DiskMB: 100000},
			NodeNetworks: []*model.NodeNetworkResource{{Addresses: []model.NodeNetworkAddress{{Alias: "default", Address: "10.0.0.1"}}}},
		},
	}
	n.ComputedClass = n.ComputeClass()
	l.propose(&fsm.RegisterNode{Node: n})
}

// register stores a job whose allocs take 100 MHz and one port each, and queues its evaluation.
func (l *leader) register(id string, count int, edit ...func(*model.Resources)) *model.Evaluation {
	j := &model.Job{
		ID: id, Name: id, Namespace: "default", Type: "batch", Priority: 50, Datacenters: []string{"*"}, NodePool: "default",
		TaskGroups: []*model.TaskGroup{{
			Name: "g", Count: count, Networks: []*model.NetworkResource{{DynamicPorts: []model.Port{{Label: "p"}}}},
			Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Resources: &model.Resources{CPU: 100, MemoryMB: 10}}},
		}},
	}
	for _, f := range edit {
		if f != nil {
			f(j.TaskGroups[0].Tasks[0].Resources)
		}
	}
	e := &model.Evaluation{ID: l.ids.NewID(), Namespace: "default", JobID: id, Type: "batch", Priority: 50, Status: "pending", TriggeredBy: "job-register"}
	l.propose(&fsm.UpsertJob{Job: j, Eval: e})
	return l.store.View().EvalByID(e.ID)
}

// eventually waits until a claim about the state holds.
func (l *leader) eventually(claim string, holds func(*state.View) bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		changed := l.store.Watch(ctx, state.Key{Table: state.TableEvals}, state.Key{Table: state.TableAllocs})
		if holds(l.store.View()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			l.t.Fatalf("never: %s", claim)
		}
	}
}

func TestARegisteredJobIsPlacedAndItsEvaluationCompletes(t *testing.T) {
	l := newLeader(t, 1)
	l.node("n1", 1000)
	e := l.register("j", 3)
	l.eventually("3 allocs and a complete evaluation", func(v *state.View) bool {
		return len(v.AllocsByJob("default", "j")) == 3 && v.EvalByID(e.ID).Status == "complete"
	})
}

func TestWhatFindsNoRoomWaitsAndIsPlacedWhenRoomComes(t *testing.T) {
	l := newLeader(t, 1)
	l.node("n1", 200)
	e := l.register("j", 3)
	l.eventually("a blocked evaluation", func(v *state.View) bool {
		b := v.EvalByID(e.ID).BlockedEval
		return b != "" && v.EvalByID(b).Status == "blocked"
	})
	blocked := l.store.View().EvalByID(e.ID).BlockedEval
	l.node("n2", 200)
	l.eventually("the third alloc and the end of the blocked evaluation", func(v *state.View) bool {
		return len(v.AllocsByJob("default", "j")) == 3 && v.EvalByID(blocked).Status == "complete"
	})
}

func TestABlockedEvaluationIsCanceledAsSoonAsANewerOneOfItsJobReplacesIt(t *testing.T) {
	l := newLeader(t, 1)
	l.node("n1", 200)
	l.register("j", 3)
	blocked := func(v *state.View) (n int) {
		for _, e := range v.EvalsByJob("default", "j") {
			if e.ShouldBlock() {
				n++
			}
		}
		return n
	}
	l.eventually("a blocked evaluation", func(v *state.View) bool { return blocked(v) == 1 })
	again := model.NewEvaluation(l.ids.NewID(), model.EvalTriggerJobRegister, l.store.View().JobByID("default", "j"), time.Now())
	l.propose(&fsm.UpsertEvals{Evals: []*model.Evaluation{again}})
	// Nothing else happens in this cluster.
	l.eventually("one blocked evaluation, and a canceled one", func(v *state.View) bool {
		canceled := 0
		for _, e := range v.EvalsByJob("default", "j") {
			if e.Status == model.EvalStatusCancelled && e.StatusDescription == worker.DescSuperseded {
				canceled++
			}
		}
		return v.EvalByID(again.ID).TerminalStatus() && blocked(v) == 1 && canceled == 1
	})
}

func TestAWorkerGoesOnWhileSupersededEvaluationsAreMarked(t *testing.T) {
	l := newLeader(t, 0)
	l.log.marks = make(chan struct{})
	mark := sync.OnceFunc(func() { close(l.log.marks) })
	defer mark()
	l.node("n1", 1000)
	l.register("j", 1)
	var evals []*model.Evaluation
	for range 2 {
		e := model.NewEvaluation(l.ids.NewID(), model.EvalTriggerJobRegister, l.store.View().JobByID("default", "j"), time.Now())
		l.propose(&fsm.UpsertEvals{Evals: []*model.Evaluation{e}})
		evals = append(evals, e)
	}
	for len(l.broker.Known()) < 3 { // the feeder follows
		runtime.Gosched()
	}
	l.work(1, l.applier)
	l.eventually("the newest is done", func(v *state.View) bool { return v.EvalByID(evals[1].ID).TerminalStatus() })
	other := l.register("k", 1)
	l.eventually("one of another job is done", func(v *state.View) bool { return v.EvalByID(other.ID).TerminalStatus() })
	mark()
	l.eventually("the one between is canceled", func(v *state.View) bool {
		return v.EvalByID(evals[0].ID).Status == model.EvalStatusCancelled
	})
}

func TestManyWorkersNeverOverfillANodeOrShareAPort(t *testing.T) {
	l := newLeader(t, 4)
	for i := range 4 {
		l.node(fmt.Sprint("n", i), 1000)
	}
	for i := range 20 {
		l.register(fmt.Sprint("j", i), 3) // 60 allocs for 40 places
	}
	l.eventually("every evaluation has ended or waits", func(v *state.View) bool {
		open := 0
		for e := range v.Evals() {
			if e.Status == "pending" {
				open++
			}
		}
		return open == 0
	})
	placed := 0
	v := l.store.View()
	for i := range 4 {
		id := fmt.Sprint("n", i)
		ports := map[int]bool{}
		allocs := v.AllocsByNode(id)
		placed += len(allocs)
		if cpu, _, _ := v.NodeUsed(id); cpu > 1000 {
			t.Errorf("node %s: %d of 1000 MHz", id, cpu)
		}
		for _, a := range allocs {
			p := a.AllocatedResources.Shared.Ports[0].Value
			if ports[p] {
				t.Errorf("node %s: port %d given twice", id, p)
			}
			ports[p] = true
		}
	}
	if placed != 40 {
		t.Errorf("%d allocs placed, there is room for 40", placed)
	}
}
