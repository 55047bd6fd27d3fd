// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
	"github.com/drover-project/drover/internal/testkit/lifecycles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log applies commands once gate lets it; it fails instead while broken.
type log struct {
	mu      sync.Mutex
	index   uint64
	fsm     *fsm.FSM
	gate    chan struct{}
	entries int
	broken  bool
}

func (l *log) Propose(_ context.Context, data []byte) (uint64, any, error) {
	<-l.gate
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return 0, nil, errors.New("leadership lost")
	}
	l.index++
	l.entries++
	return l.index, l.fsm.ApplyBatch([]fsm.Entry{{Index: l.index, Data: data}})[0], nil
}

// apply applies a command at once.
func (l *log) apply(t *testing.T, c fsm.Command) {
	t.Helper()
	data, err := fsm.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	if err, ok := l.fsm.ApplyBatch([]fsm.Entry{{Index: l.index, Data: data}})[0].(error); ok {
		t.Fatal(err)
	}
}

type fixture struct {
	log     *log
	store   *state.Store
	applier *plan.Applier
	looks   chan struct{} // a value for each look of the applier at the state
}

// start returns an applier over a state with one node of 1000 MHz and a job.
func start(t *testing.T) *fixture { return begin(t, plan.Tracking{}) }

// begin is start with an applier that counts refused plans.
func begin(t *testing.T, tracking plan.Tracking) *fixture {
	f := &fixture{store: state.New(), looks: make(chan struct{}, 100)}
	invariants.AtEnd(t, f.store)
	lifecycles.Check(t, f.store)
	f.log = &log{index: 1, fsm: fsm.New(f.store, hclog.NewNullLogger()), gate: make(chan struct{})}
	n := &model.Node{
		ID: "n", Status: model.NodeStatusReady, SchedulingEligibility: "eligible",
		NodeResources: &model.NodeResources{Cpu: model.NodeCpuResources{CpuShares: 1000}, Memory: model.NodeMemoryResources{MemoryMB: 1000}},
	}
	cmds := []fsm.Command{&fsm.BeginTerm{ClusterID: "c", TermID: "t"}, &fsm.RaiseLevel{Level: fsm.Level}, &fsm.RegisterNode{Node: n}}
	for i := range 6 {
		cmds = append(cmds, &fsm.UpsertJob{Job: &model.Job{ID: fmt.Sprint(i), Namespace: "default", Type: "batch", TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{{Name: "t"}}}}}})
	}
	for _, c := range cmds {
		f.log.apply(t, c)
	}
	look := func() plan.View {
		select {
		case f.looks <- struct{}{}:
		default: // the test does not wait for looks
		}
		return f.store.View()
	}
	f.applier = plan.NewApplier(look, f.log, time.Now)
	f.applier.Track(tracking)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.applier.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return f
}

// place plans an alloc of one of the jobs 0 to 5.
func (f *fixture) place(job, node string, cpu int64) *model.Plan {
	a := &model.Allocation{
		ID: "a" + job, Namespace: "default", JobID: job, TaskGroup: "g", NodeID: node, DesiredStatus: "run", ClientStatus: "pending",
		AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"t": {Cpu: model.AllocatedCpuResources{CpuShares: cpu}}}},
	}
	return &model.Plan{EvalID: "e" + job, Namespace: "default", JobID: job, SnapshotIndex: f.store.View().Index(), Place: []*model.Allocation{a}}
}

func TestPlansInFlightCountBeforeTheyAreApplied(t *testing.T) {
	f := start(t)
	const plans = 6
	results := make(chan *model.PlanResult, plans)
	for i := range plans {
		go func() {
			r, err := f.applier.Submit(context.Background(), f.place(fmt.Sprint(i), "n", 300))
			if err != nil {
				t.Error(err)
			}
			results <- r
		}()
	}
	close(f.log.gate)
	accepted := 0
	for range plans {
		r := <-results
		if len(r.Rejections) == 0 {
			accepted++
		} else if r.Rejections[0].Reason != "cpu" || r.RefreshIndex == 0 {
			t.Errorf("refused with %+v and refresh index %d", r.Rejections, r.RefreshIndex)
		}
	}
	if cpu, _, _ := f.store.View().NodeUsed("n"); accepted != 3 || cpu != 900 {
		t.Errorf("%d plans accepted, %d MHz used; want 3 and 900", accepted, cpu)
	}
}

// answer is what became of a plan.
type answer struct {
	*model.PlanResult
	err error
}

// submit submits a plan and returns when the applier has looked at it. The answer comes later.
func (f *fixture) submit(p *model.Plan) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		r, err := f.applier.Submit(context.Background(), p)
		out <- answer{r, err}
	}()
	<-f.looks
	return out
}

func TestAPlanThatDoesNotFitBesideOneInFlightCostsNoEntryOfTheLog(t *testing.T) {
	f := start(t)
	first, second := f.submit(f.place("0", "n", 1000)), f.submit(f.place("1", "n", 1000))
	close(f.log.gate)
	if r := <-first; r.err != nil || len(r.Rejections) != 0 {
		t.Errorf("the first: %+v", r)
	}
	if r := <-second; r.err != nil || len(r.Rejections) != 1 || r.Rejections[0].Reason != "cpu" {
		t.Errorf("the second: %+v", r)
	}
	if f.log.entries != 1 {
		t.Errorf("%d entries", f.log.entries)
	}
}

// The second plan was looked at as if the first one had taken all room.
func TestAPlanIsLookedAtAgainIfTheOneInFlightIsNotCommittedAsAWhole(t *testing.T) {
	for name, prevent := range map[string]func(f *fixture){
		"not committed": func(f *fixture) { f.log.broken = true },
		"refused by the log": func(f *fixture) {
			job := f.store.View().JobByID("default", "0").Copy()
			job.Priority++
			f.log.apply(t, &fsm.UpsertJob{Job: job})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			first, second := f.submit(f.place("0", "n", 1000)), f.submit(f.place("1", "n", 1000))
			prevent(f)
			f.log.gate <- struct{}{}
			if r := <-first; r.err == nil && len(r.Rejections) != 1 {
				t.Errorf("the first: %+v", r)
			}
			f.log.mu.Lock()
			f.log.broken = false
			f.log.mu.Unlock()
			close(f.log.gate)
			if r := <-second; r.err != nil || len(r.Rejections) != 0 || len(r.Place) != 1 {
				t.Errorf("the second: %+v", r)
			}
		})
	}
}

func TestANodeThatIsNotReadyRefusesNewAllocs(t *testing.T) {
	f := start(t)
	close(f.log.gate)
	r, err := f.applier.Submit(context.Background(), f.place("0", "gone", 1))
	if err != nil || len(r.Rejections) != 1 || r.Rejections[0].Reason != "node does not exist" {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestAllAtOnceCommitsNothingOfAPlanThatDoesNotFit(t *testing.T) {
	f := start(t)
	close(f.log.gate)
	p := f.place("0", "n", 10)
	p.Place = append(p.Place, f.place("1", "gone", 10).Place...)
	p.AllAtOnce = true
	r, err := f.applier.Submit(context.Background(), p)
	if err != nil || len(r.Place) != 0 || f.store.View().AllocByID("a0") != nil {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestAFailedCommitIsReportedAndLeavesNoTrace(t *testing.T) {
	f := start(t)
	f.log.broken = true
	close(f.log.gate)
	if _, err := f.applier.Submit(context.Background(), f.place("0", "n", 1000)); err == nil {
		t.Fatal("no error")
	}
	f.log.mu.Lock()
	f.log.broken = false
	f.log.mu.Unlock()
	r, err := f.applier.Submit(context.Background(), f.place("1", "n", 1000))
	if err != nil || len(r.Rejections) != 0 {
		t.Fatalf("the room of the failed plan is still taken: %+v, %v", r, err)
	}
}

// Two plans that were made on the same state want the last of a node: only the first gets
// it, whether it places an alloc or gives a running one more.
func TestNewResourcesAreGivenOnlyAsFarAsTheyFit(t *testing.T) {
	f := start(t)
	close(f.log.gate)
	if r, err := f.applier.Submit(context.Background(), f.place("0", "n", 300)); err != nil || len(r.Rejections) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	grow := func(cpu int64) *model.Plan {
		p := f.place("0", "n", cpu)
		to := p.Place[0].AllocatedResources
		p.Place = nil
		p.Change = []model.AllocChange{{Kind: model.AllocUpdateInPlace, AllocID: "a0", Resources: to}}
		return p
	}
	other, late := f.place("1", "n", 600), grow(500)
	if r, err := f.applier.Submit(context.Background(), other); err != nil || len(r.Rejections) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err := f.applier.Submit(context.Background(), late)
	if err != nil || len(r.Change) != 0 || len(r.Rejections) != 1 || r.Rejections[0].Reason != "cpu" || r.RefreshIndex == 0 {
		t.Errorf("more than fits: %+v, %v", r, err)
	}
	if cpu, _, _ := f.store.View().NodeUsed("n"); cpu != 900 {
		t.Errorf("%d MHz used, want 900", cpu)
	}
	if r, err := f.applier.Submit(context.Background(), grow(400)); err != nil || len(r.Change) != 1 {
		t.Errorf("what fits: %+v, %v", r, err)
	}
	if cpu, _, _ := f.store.View().NodeUsed("n"); cpu != 1000 {
		t.Errorf("%d MHz used, want 1000", cpu)
	}
}
