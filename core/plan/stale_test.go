// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
)

// stale drives a cluster in which everything happens between the moment at which
// a plan is made, verified and applied.
type stale struct {
	t          *testing.T
	rng        *rand.Rand
	store      *state.Store
	fsm        *fsm.FSM
	now        time.Time
	ids        int
	exclusives bool // jobs ask for ports, cores and devices

	between bool // something happens between verification and Apply
	stopped map[string]bool
	ended   map[string]string
	asked   map[string]bool

	evictions int
}

// NewID implements schedule.IDSource.
func (s *stale) NewID() string {
	s.ids++
	return fmt.Sprintf("%08d-0000-0000-0000-000000000000", s.ids)
}

func (s *stale) apply(c fsm.Command) any {
	data, err := fsm.Encode(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.applyData(data)
}

func (s *stale) applyData(data []byte) any {
	return s.fsm.ApplyBatch([]fsm.Entry{{Index: s.store.View().Index() + 1, Data: data}})[0]
}

// Propose implements propose.Log; other entries of the log may come first.
func (s *stale) Propose(_ context.Context, data []byte) (uint64, any, error) {
	if s.between {
		for range s.rng.IntN(3) {
			s.happen()
		}
	}
	answer := s.applyData(data)
	if err, failed := answer.(error); failed {
		return 0, nil, err
	}
	return s.store.View().Index(), answer, nil
}

const staleNodes = 4

func (s *stale) node(i int, cpu int64) {
	n := &model.Node{
		ID: fmt.Sprint("n", i), Datacenter: "dc1", NodePool: "default", Status: model.NodeStatusReady,
		Attributes: map[string]string{"driver.raw_exec": "1"},
		NodeResources: &model.NodeResources{
			Cpu:    model.NodeCpuResources{CpuShares: cpu, TotalCpuCores: 3, ReservableCpuCores: []uint16{0, 1, 2}},
			Memory: model.NodeMemoryResources{MemoryMB: 10000}, Disk: model.NodeDiskResources{DiskMB: 10000},
			NodeNetworks: []*model.NodeNetworkResource{{Mode: "host", Addresses: []model.NodeNetworkAddress{{Alias: "default", Address: "10.0.0.1"}}}},
			Devices:      []*model.NodeDeviceResource{{Vendor: "nvidia", Type: "gpu", Name: "a100", Instances: []*model.NodeDevice{{ID: "gpu0", Healthy: true}, {ID: "gpu1", Healthy: true}}}},
		},
		NodeMaxAllocs: 4,
	}
	n.ComputedClass = n.ComputeClass()
	s.apply(&fsm.RegisterNode{Node: n})
}

func (s *stale) job(id string, count int) {
	kill := time.Duration(s.rng.IntN(3)+1) * time.Second // an update in place
	priority := map[string]int{"plain": 50, "patient": 20, "rolling": 70}[id] - 10*s.rng.IntN(3)
	tg := &model.TaskGroup{
		Name: "g", Count: count, ReschedulePolicy: &model.ReschedulePolicy{Unlimited: true, Delay: time.Second, DelayFunction: "constant"},
		Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", KillTimeout: kill, Env: map[string]string{"V": fmt.Sprint(s.rng.IntN(4) / 3)}, Resources: &model.Resources{CPU: 100, MemoryMB: 10}}},
	}
	if id == "patient" {
		tg.Disconnect = &model.DisconnectStrategy{LostAfter: time.Minute}
	}
	if id == "rolling" {
		tg.Update = &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: time.Hour}
	}
	s.exclusive(tg)
	s.apply(&fsm.UpsertJob{Job: &model.Job{
		ID: id, Name: id, Namespace: "default", Type: "service", Priority: priority, Datacenters: []string{"*"}, NodePool: "default", TaskGroups: []*model.TaskGroup{tg},
	}})
}

// exclusive makes a group ask for what only one alloc can have.
func (s *stale) exclusive(tg *model.TaskGroup) {
	if !s.exclusives {
		return
	}
	ask := tg.Tasks[0].Resources
	switch s.rng.IntN(5) {
	case 0:
		tg.Networks = []*model.NetworkResource{{ReservedPorts: []model.Port{{Label: "http", Value: 8080}}}}
	case 1:
		tg.Networks = []*model.NetworkResource{{DynamicPorts: []model.Port{{Label: "http"}}}}
	case 2:
		ask.Devices = []*model.RequestedDevice{{Name: "nvidia/gpu", Count: 1}}
	case 3:
		ask.Cores = 1
	}
}

var staleJobs = []string{"plain", "patient", "rolling"}

func (s *stale) pick() *model.Allocation {
	var all []*model.Allocation
	for a := range s.store.View().Allocs() {
		all = append(all, a)
	}
	if len(all) == 0 {
		return &model.Allocation{}
	}
	return all[s.rng.IntN(len(all))]
}

// report is what a node says of an alloc; only ready nodes are heard.
func (s *stale) report(a *model.Allocation, status string) {
	if n := s.store.View().NodeByID(a.NodeID); n == nil || n.Status != model.NodeStatusReady {
		return
	}
	healthy, at := status == "running", s.now
	state := &model.TaskState{State: "running", StartedAt: &at}
	if !healthy {
		state = &model.TaskState{State: "dead", Failed: status == "failed", FinishedAt: &at}
	}
	now := &model.Allocation{
		ID: a.ID, ClientStatus: status, DeploymentID: a.DeploymentID, TaskStates: map[string]*model.TaskState{"t": state},
		DeploymentStatus: &model.AllocDeploymentStatus{Healthy: &healthy},
	}
	s.apply(&fsm.UpdateAllocsFromClient{At: s.now.UnixNano(), Reports: []*model.AllocReport{now.ReportSince(nil)}})
}

// happen is one thing that others write.
func (s *stale) happen() {
	node, job, yes := fmt.Sprint("n", s.rng.IntN(staleNodes)), staleJobs[s.rng.IntN(len(staleJobs))], true
	switch s.rng.IntN(12) {
	case 0, 1, 2:
		if a := s.pick(); !a.ServerTerminalStatus() {
			s.report(a, []string{"running", "running", "failed"}[s.rng.IntN(3)])
		}
	case 3:
		if a := s.pick(); a.ServerTerminalStatus() && !a.ClientTerminalStatus() {
			s.report(a, "complete")
		}
	case 4, 5:
		s.apply(&fsm.UpdateNodeStatus{NodeID: node, Status: []string{"ready", "ready", "down", "disconnected"}[s.rng.IntN(4)]})
	case 6:
		s.node(s.rng.IntN(staleNodes), int64(100+100*s.rng.IntN(5)))
	case 7:
		var drain *model.DrainStrategy
		if s.rng.IntN(3) == 0 {
			drain = &model.DrainStrategy{}
		}
		s.apply(&fsm.UpdateNodeDrain{NodeID: node, Strategy: drain, MarkEligible: true})
	case 8:
		if a := s.pick(); a.ID != "" {
			s.apply(&fsm.UpdateDesiredTransitions{Transitions: map[string]model.DesiredTransition{a.ID: {Migrate: &yes}}})
			s.asked[a.ID] = true
		}
	case 9:
		s.job(job, s.rng.IntN(5))
	case 10:
		if s.rng.IntN(3) == 0 {
			s.apply(&fsm.DeregisterJob{Namespace: "default", ID: job, Purge: yes})
		}
	case 11:
		s.now = s.now.Add(time.Duration(s.rng.IntN(40)) * time.Second)
	}
	s.forward()
}

// forward checks that what was decided stays decided.
func (s *stale) forward() {
	s.t.Helper()
	for a := range s.store.View().Allocs() {
		if s.stopped[a.ID] && !a.ServerTerminalStatus() {
			s.t.Fatalf("the stop of %s was erased", a.ID)
		}
		if was := s.ended[a.ID]; was != "" && was != "lost" && was != a.ClientStatus || was != "" && !a.ClientTerminalStatus() { // a node may say how a lost one ended
			s.t.Fatalf("%s was %s and became %s", a.ID, was, a.ClientStatus)
		}
		if s.asked[a.ID] && !a.DesiredTransition.ShouldMigrate() {
			s.t.Fatalf("that %s shall migrate was erased", a.ID)
		}
		if a.ServerTerminalStatus() && !s.stopped[a.ID] && a.PreemptedByAllocation != "" {
			s.evicted(a)
		}
		if a.ServerTerminalStatus() {
			s.stopped[a.ID] = true
		}
		if a.ClientTerminalStatus() {
			s.ended[a.ID] = a.ClientStatus
		}
	}
}

// evicted checks a preemption that was just applied: what takes the place of the alloc is
// there, is more important, and the job that lost it is evaluated.
func (s *stale) evicted(a *model.Allocation) {
	s.t.Helper()
	s.evictions++
	v := s.store.View()
	by := v.AllocByID(a.PreemptedByAllocation)
	if by == nil || by.NodeID != a.NodeID || !slices.Contains(by.PreemptedAllocations, a.ID) || a.DesiredStatus != "evict" || a.DesiredDescription != "Preempted by alloc ID "+by.ID {
		s.t.Fatalf("%+v was preempted by %+v", a, by)
	}
	if low, high := v.JobByID("default", a.JobID), v.JobByID("default", by.JobID); !high.MayPreempt(low) {
		s.t.Fatalf("%s of priority %d was preempted by %s of priority %d", a.JobID, low.Priority, by.JobID, high.Priority)
	}
	for e := range v.Evals() {
		if e.JobID == a.JobID && e.TriggeredBy == "preemption" && e.CreateIndex == by.CreateIndex && e.Status == "pending" {
			return
		}
	}
	s.t.Fatalf("no evaluation of %s", a.JobID)
}

// fits checks that nodes which were just given something can take it.
func (s *stale) fits(since uint64) {
	s.t.Helper()
	v := s.store.View()
	for n := range v.Nodes() {
		used, live, fresh := int64(0), 0, false
		holders := map[string][]*model.Allocation{}
		for _, a := range v.AllocsByNode(n.ID) {
			if !a.TerminalStatus() {
				used += a.AllocatedResources.Comparable().CPUShares
				live++
				fresh = fresh || a.CreateIndex > since
				for _, what := range exclusiveOf(a) {
					holders[what] = append(holders[what], a)
				}
			}
		}
		for what, as := range holders {
			if len(as) > 1 && max(as[0].CreateIndex, as[1].CreateIndex) > since {
				s.t.Fatalf("node %s: %s is held by %s and %s", n.ID, what, as[0].Name, as[1].Name)
			}
		}
		if fresh && live > n.NodeMaxAllocs {
			s.t.Fatalf("node %s, which takes %d allocs, has %d", n.ID, n.NodeMaxAllocs, live)
		}
		if fresh && used > n.NodeResources.Cpu.CpuShares {
			s.t.Fatalf("node %s of %d MHz was given so much that it runs %d MHz", n.ID, n.NodeResources.Cpu.CpuShares, used)
		}
	}
}

// exclusiveOf returns what no other alloc on its node may have.
func exclusiveOf(a *model.Allocation) (out []string) {
	for _, p := range a.AllocatedResources.Shared.Ports {
		out = append(out, fmt.Sprint("port ", p.Value))
	}
	for _, task := range a.AllocatedResources.Tasks {
		for _, c := range task.Cpu.ReservedCores {
			out = append(out, fmt.Sprint("core ", c))
		}
		for _, d := range task.Devices {
			for _, id := range d.DeviceIDs {
				out = append(out, "device "+id)
			}
		}
	}
	return out
}

// once checks that no two allocs of a job that tolerates no disconnects run for one place.
func (s *stale) once() {
	s.t.Helper()
	for _, job := range []string{"plain", "rolling"} {
		names := map[string]string{}
		for _, a := range s.store.View().AllocsByJob("default", job) {
			if a.TerminalStatus() {
				continue
			}
			if other := names[a.Name]; other != "" {
				s.t.Fatalf("%s and %s both run as %s", other, a.ID, a.Name)
			}
			names[a.Name] = a.ID
		}
	}
}

func (s *stale) process(job string) *model.Plan {
	e := &model.Evaluation{ID: s.NewID(), Namespace: "default", JobID: job, Type: "service", Priority: 50, Status: "pending"}
	return schedule.Process(s.store.View(), e, s.now, s).Plan
}

// calm makes everything well and evaluates until nothing is left to do.
func (s *stale) calm(submit func(*model.Plan) *model.PlanResult) {
	s.t.Helper()
	for i := range staleNodes {
		s.node(i, 5000)
		s.apply(&fsm.UpdateNodeDrain{NodeID: fmt.Sprint("n", i), MarkEligible: true})
	}
	for round := 0; ; round++ {
		if round > 40 {
			s.t.Fatal("evaluations never come to an end")
		}
		for a := range s.store.View().Allocs() {
			switch {
			case a.ClientTerminalStatus():
			case a.ServerTerminalStatus():
				s.report(a, "complete")
			case a.ClientStatus != "running" || !a.DeploymentStatus.IsHealthy():
				s.report(a, "running")
			}
		}
		s.now = s.now.Add(2 * time.Second)
		done := true
		for _, job := range staleJobs {
			if p := s.process(job); !p.IsNoOp() {
				done = false
				if r := submit(p); len(r.Rejections) > 0 {
					s.t.Fatalf("refused though nothing happens: %v", r.Rejections)
				}
			}
		}
		s.forward()
		if done {
			break
		}
	}
	v := s.store.View()
	for _, id := range staleJobs {
		want, live := 0, 0
		if j := v.JobByID("default", id); j != nil {
			want = j.TaskGroups[0].Count
		}
		for _, a := range v.AllocsByJob("default", id) {
			if !a.TerminalStatus() {
				live++
			}
		}
		if live != want {
			s.t.Fatalf("job %s runs %d allocs, not %d", id, live, want)
		}
	}
}

func TestAPlanMadeOnOlderStateUndoesAndOverfillsNothing(t *testing.T) {
	refused, cut, evicted := 0, 0, 0
	for seed := range uint64(40) {
		s := &stale{
			t: t, rng: rand.New(rand.NewPCG(seed, 9)), store: state.New(), now: time.Unix(1_700_000_000, 0).UTC(),
			stopped: map[string]bool{}, ended: map[string]string{}, asked: map[string]bool{}, exclusives: seed%2 == 1,
		}
		s.fsm = fsm.New(s.store, hclog.NewNullLogger())
		a := plan.NewApplier(func() plan.View { return s.store.View() }, s, func() time.Time { return s.now })
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { a.Run(ctx) })
		submit := func(p *model.Plan) *model.PlanResult {
			r, err := a.Submit(ctx, p)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return r
		}
		func() {
			defer wg.Wait()
			defer cancel()
			s.apply(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
			s.apply(&fsm.RaiseLevel{Level: fsm.Level})
			s.apply(&fsm.SetSchedulerConfig{Config: &model.SchedulerConfiguration{PreemptionConfig: model.PreemptionConfig{ServiceSchedulerEnabled: seed%4 != 0}}})
			s.between = true
			for i := range staleNodes {
				s.node(i, 300)
			}
			for _, id := range staleJobs {
				s.job(id, 3)
			}
			for range 60 {
				job := staleJobs[s.rng.IntN(len(staleJobs))]
				p := s.process(job)
				twin := s.process(job) // of somebody who knows nothing of the other
				for range s.rng.IntN(4) {
					s.happen()
				}
				for _, p := range []*model.Plan{p, twin}[:1+s.rng.IntN(2)] {
					if p.IsNoOp() {
						continue
					}
					before := s.store.View().Index()
					r := submit(p)
					if len(r.Rejections) > 0 && r.RefreshIndex == 0 {
						t.Fatalf("seed %d: refused without an index to wait for: %+v", seed, r)
					}
					if len(r.Rejections) > 0 {
						refused++
						if r.AllocIndex > before {
							cut++
						}
					}
					s.forward()
					s.fits(before)
					s.once()
				}
			}
			s.between = false
			s.calm(submit)
			invariants.Check(t, s.store.View())
			evicted += s.evictions
		}()
	}
	if refused < 50 || cut < 10 || evicted < 20 {
		t.Errorf("%d plans were refused, %d of them in part, %d allocs were preempted: the test says little", refused, cut, evicted)
	}
}
