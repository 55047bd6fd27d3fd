// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
)

// tick is how long after its deadline a deployment may still be there: the loop decides at
// the deadline, and a leader that begins then reads everything first.
const tick = time.Second

// history drives the loop of the controller, on a fake clock, through what happens to the
// deployments of one job. Its scheduler carries out evaluations late, twice and in any
// order.
type history struct {
	t     *testing.T
	rng   *rand.Rand
	store *state.Store
	fsm   *fsm.FSM
	ids   int

	mu    sync.Mutex // of what the loop also does
	stop  func()
	loops int

	ended     map[string]string // statuses of deployments that have ended
	promoted  map[string]bool
	deadlines int // deployments that ended by their deadline
	losses    int
}

// Propose implements propose.Log.
func (h *history) Propose(_ context.Context, data []byte) (uint64, any, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.store.View()
	answer := h.fsm.ApplyBatch([]fsm.Entry{{Index: before.Index() + 1, Data: data}})[0]
	h.judge(before, h.store.View())
	if err, failed := answer.(error); failed {
		return 0, nil, err
	}
	return h.store.View().Index(), answer, nil
}

func (h *history) apply(c fsm.Command) {
	h.t.Helper()
	data, err := fsm.Encode(c)
	if err != nil {
		h.t.Fatal(err)
	}
	_, _, _ = h.Propose(context.Background(), data) // a refusal is an answer like any other
}

// NewID implements schedule.IDSource.
func (h *history) NewID() string {
	h.ids++
	return fmt.Sprintf("%08d-0000-4000-8000-000000000000", h.ids)
}

func (h *history) newID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.NewID()
}

// judge compares the states before and after an entry of the log.
func (h *history) judge(before, after *state.View) {
	for d := range after.Deployments() {
		if was := h.ended[d.ID]; was != "" && was != d.Status {
			h.t.Errorf("deployment %s was %s and became %s", d.ID, was, d.Status)
		}
		if !d.Active() && h.ended[d.ID] == "" {
			h.ended[d.ID] = d.Status
			if d.StatusDescription == model.DeploymentStatusDescriptionProgressDeadline {
				h.deadlines++
			}
		}
		g := d.TaskGroups["g"]
		if h.promoted[d.ID] && !g.Promoted {
			h.t.Errorf("the promotion of %s was taken back", d.ID)
		}
		if g.Promoted && !h.promoted[d.ID] {
			h.promoted[d.ID] = true
			if n := healthyCanaries(before, d); n < g.DesiredCanaries {
				h.t.Errorf("%s was promoted with %d of %d canaries healthy", d.ID, n, g.DesiredCanaries)
			}
		}
		if live := liveOf(after); d.Active() && live > liveOf(before) {
			if most := g.DesiredTotal + g.DesiredCanaries + 1; live > most { // max_parallel is 1
				h.t.Errorf("%d allocs live, of at most %d", live, most)
			}
		}
	}
	h.stable(before, after)
}

func healthyCanaries(v *state.View, d *model.Deployment) (n int) {
	for _, a := range v.AllocsByDeployment(d.ID) {
		if a.DeploymentStatus.IsCanary() && a.DeploymentStatus.IsHealthy() && !a.TerminalStatus() {
			n++
		}
	}
	return n
}

func liveOf(v *state.View) (n int) {
	for _, a := range v.AllocsByJob("default", "web") {
		if !a.TerminalStatus() {
			n++
		}
	}
	return n
}

// stable: an entry that stops the last healthy alloc of a stable version leaves healthy ones
// of another version.
func (h *history) stable(before, after *state.View) {
	healthy := func(v *state.View, stable bool) (n int) {
		for _, a := range v.AllocsByJob("default", "web") {
			if job := v.JobOf(a); job != nil && job.Stable == stable && !a.TerminalStatus() && a.DeploymentStatus.IsHealthy() {
				n++
			}
		}
		return n
	}
	stopped := false
	for _, a := range before.AllocsByJob("default", "web") {
		now := after.AllocByID(a.ID)
		stopped = stopped || now != nil && !a.ServerTerminalStatus() && now.ServerTerminalStatus() && now.DesiredDescription == "alloc is being updated due to job update"
	}
	if stopped && healthy(before, true) > 0 && healthy(after, true) == 0 && healthy(after, false) == 0 {
		h.t.Error("the last healthy alloc of a stable version was stopped, and no other is healthy")
	}
}

// lead starts the loop, as a new leader does.
func (h *history) lead() {
	if h.stop != nil {
		h.stop()
	}
	h.loops++
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	loops := control.NewLoops(h.store, h, h.newID, hclog.NewNullLogger())
	wg.Go(func() { loops.Run(ctx, deploy.Controller{}) })
	h.stop = func() { cancel(); wg.Wait() }
}

// lose makes every reader of changes lose those that it has not read: the state is replaced
// by itself, as a snapshot does.
func (h *history) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var saved bytes.Buffer
	if err := h.store.View().Save(&saved, fsm.NewCodec()); err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.Restore(&saved, fsm.NewCodec()); err != nil {
		h.t.Fatal(err)
	}
	h.losses++
}

func (h *history) register() {
	u := &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: time.Duration(1+h.rng.IntN(3)) * time.Minute, Canary: h.rng.IntN(3), AutoPromote: h.rng.IntN(2) == 0, AutoRevert: h.rng.IntN(2) == 0}
	u.AutoPromote = u.AutoPromote && u.Canary > 0
	tg := &model.TaskGroup{
		Name: "g", Count: 3, Update: u, ReschedulePolicy: &model.ReschedulePolicy{Unlimited: h.rng.IntN(2) == 0, Attempts: 1, Interval: time.Hour, Delay: 5 * time.Second, DelayFunction: "constant"},
		Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Env: map[string]string{"V": fmt.Sprint(h.rng.Int())}, Resources: &model.Resources{CPU: 100, MemoryMB: 10}}},
	}
	job := &model.Job{Region: "global", ID: "web", Name: "web", Namespace: "default", Type: "service", Priority: 50, Datacenters: []string{"*"}, NodePool: "default", TaskGroups: []*model.TaskGroup{tg}}
	h.apply(&fsm.UpsertJob{Job: job, Eval: model.NewEvaluation(h.newID(), model.EvalTriggerJobRegister, job, time.Now())})
}

// schedule carries out an evaluation, on a state that may be older than the newest.
func (h *history) schedule(view *state.View) {
	h.mu.Lock()
	e := &model.Evaluation{ID: h.NewID(), Namespace: "default", JobID: "web", Type: "service", Priority: 50, Status: model.EvalStatusPending}
	o := schedule.Process(view, e, time.Now(), h)
	newest := h.store.View().Index()
	h.mu.Unlock()
	if view.Index() == newest && !o.Plan.IsNoOp() { // what is planned on an older state, plan.Verify refuses
		h.apply(fsm.NewApplyPlan(o.Plan, &model.PlanResult{Place: o.Plan.Place, Change: o.Plan.Change, Deployment: o.Plan.Deployment, DeploymentUpdates: o.Plan.DeploymentUpdates}, newest, time.Now().UnixNano()))
	}
	o.Eval.WaitUntil = time.Time{}
	h.apply(&fsm.UpsertEvals{Evals: []*model.Evaluation{o.Eval}})
}

// report is what a node says of an alloc, perhaps for the second time.
func (h *history) report(a *model.Allocation, status string, healthy *bool) {
	at := time.Now()
	now := &model.Allocation{ID: a.ID, ClientStatus: status, DeploymentID: a.DeploymentID, TaskStates: map[string]*model.TaskState{"t": {State: "running", StartedAt: &at}}}
	if healthy != nil {
		now.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: healthy}
	}
	for range 1 + h.rng.IntN(2) {
		h.apply(&fsm.UpdateAllocsFromClient{At: at.UnixNano(), Reports: []*model.AllocReport{now.ReportSince(nil)}})
	}
}

func (h *history) happen() {
	view := h.store.View()
	var live []*model.Allocation
	for _, a := range view.AllocsByJob("default", "web") {
		if !a.ClientTerminalStatus() {
			live = append(live, a)
		}
	}
	d := view.LatestDeployment("default", "web")
	yes, no := true, false
	switch h.rng.IntN(14) {
	case 0, 1, 2, 3:
		for _, a := range live {
			switch {
			case a.ServerTerminalStatus():
				h.report(a, "complete", nil)
			case h.rng.IntN(6) == 0:
				h.report(a, "running", &no)
			case h.rng.IntN(12) == 0:
				h.report(a, "failed", nil)
			case h.rng.IntN(2) == 0:
				h.report(a, "running", &yes)
			}
		}
	case 4, 5, 6, 7:
		h.schedule(view)
	case 8:
		h.lose()
	case 9:
		h.lead()
	case 10:
		if h.rng.IntN(3) == 0 {
			h.register()
		}
	case 11:
		if d.Active() {
			h.apply(&fsm.PromoteDeployment{DeploymentID: d.ID, All: true, UpdatedAt: time.Now().UnixNano()})
		}
	case 12:
		if d.Active() {
			to := model.DeploymentStatusPaused
			if d.Status == to {
				to = model.DeploymentStatusRunning
			}
			h.apply(&fsm.UpdateDeploymentStatus{Update: &model.DeploymentStatusUpdate{DeploymentID: d.ID, Status: to, UpdatedAt: time.Now().UnixNano()}})
		}
	case 13:
		time.Sleep(time.Duration(h.rng.IntN(90)) * time.Second) // of the fake clock
	}
	synctest.Wait()
	h.due()
}

// due: what runs and does not wait for a promotion is not past its deadline by more than a
// tick.
func (h *history) due() {
	h.mu.Lock()
	defer h.mu.Unlock()
	view := h.store.View()
	for d := range view.Deployments() {
		g := d.TaskGroups["g"]
		waits := g.DesiredCanaries > 0 && !g.Promoted && healthyCanaries(view, d) >= g.DesiredCanaries
		if d.Status == model.DeploymentStatusRunning && !g.Done() && !waits && !g.RequireProgressBy.IsZero() && time.Now().After(g.RequireProgressBy.Add(tick)) {
			h.t.Errorf("deployment %s should have ended at %s, and it is %s: %s", d.ID, g.RequireProgressBy, time.Now(), d.StatusDescription)
		}
	}
}

// TestDeploymentsEndInTimeWhateverIsLostRepeatedOrLate plays random histories: reports come
// twice, changes are lost, leaders change, evaluations are late or superfluous, people promote and
// pause. At the end nothing happens any more but time passing, and every deployment that is
// not paused and does not wait for a person has ended.
func TestDeploymentsEndInTimeWhateverIsLostRepeatedOrLate(t *testing.T) {
	deadlines, losses, promoted, ended := 0, 0, 0, 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 15)), store: state.New(), ended: map[string]string{}, promoted: map[string]bool{}}
			h.fsm = fsm.New(h.store, hclog.NewNullLogger())
			h.apply(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
			h.apply(&fsm.RaiseLevel{Level: fsm.Level})
			for i := range 3 {
				n := &model.Node{ID: fmt.Sprint("n", i), Datacenter: "dc1", NodePool: "default", Status: model.NodeStatusReady, SchedulingEligibility: "eligible", Attributes: map[string]string{"driver.raw_exec": "1"},
					NodeResources: &model.NodeResources{Cpu: model.NodeCpuResources{CpuShares: 1000}, Memory: model.NodeMemoryResources{MemoryMB: 1000}, Disk: model.NodeDiskResources{DiskMB: 1000}}}
				n.ComputedClass = n.ComputeClass()
				h.apply(&fsm.RegisterNode{Node: n})
			}
			h.lead()
			h.register()
			for range 120 {
				h.happen()
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			h.due()
			h.stop()
			invariants.Check(t, h.store.View())
			deadlines, losses, promoted, ended = deadlines+h.deadlines, losses+h.losses, promoted+len(h.promoted), ended+len(h.ended)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if deadlines < 5 || losses < 100 || promoted < 10 || ended < 50 {
		t.Errorf("%d deployments ended, %d of them by their deadline, %d were promoted, %d times changes were lost: the test says little", ended, deadlines, promoted, losses)
	}
}
