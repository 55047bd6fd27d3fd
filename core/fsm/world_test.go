// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

func newFSM() *fsm.FSM { return fsm.New(state.New(), hclog.NewNullLogger()) }

// snapshotOf returns the bytes of a snapshot; equal states have equal ones.
func snapshotOf(t testing.TB, f *fsm.FSM) []byte {
	t.Helper()
	s, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := s.WriteTo(context.Background(), &buf); err != nil {
		t.Fatal(err)
	}
	s.Release()
	return buf.Bytes()
}

func hashOf(t testing.TB, f *fsm.FSM) string {
	t.Helper()
	digest, err := fsm.Digest(t.Context(), f.Store().View())
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// mustApply applies one command and fails the test if it is refused.
func mustApply(t testing.TB, f *fsm.FSM, c fsm.Command) uint64 {
	t.Helper()
	index, answer := apply(t, f, c)
	if refused(answer) {
		t.Fatalf("%T: %v", c, answer)
	}
	return index
}

// refused reports whether an answer says that a command, or a part of it, was not applied.
func refused(answer any) bool {
	switch answer.(type) {
	case error, []model.PlanRejection:
		return true
	}
	return false
}

func apply(t testing.TB, f *fsm.FSM, c fsm.Command) (uint64, any) {
	t.Helper()
	data, err := fsm.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	index := f.Store().View().Index() + 1
	return index, f.ApplyBatch([]fsm.Entry{{Index: index, Data: data}})[0]
}

// place returns the command that places allocs of the job "web" on a node of
// their own, planned on what f holds.
func place(t testing.TB, f *fsm.FSM, allocs ...*model.Allocation) *fsm.ApplyPlan {
	t.Helper()
	if f.Store().View().NodeByID("n1") == nil {
		mustApply(t, f, &fsm.RegisterNode{Node: &model.Node{ID: "n1", Status: model.NodeStatusReady}})
	}
	for _, a := range allocs {
		a.NodeID = "n1"
	}
	at := f.Store().View().Index()
	return &fsm.ApplyPlan{VerifiedIndex: at, Plan: &model.Plan{Namespace: "default", JobID: "web", SnapshotIndex: at, Place: allocs}}
}

func testJob(id string, count int) *model.Job {
	return &model.Job{
		Region: "global", Namespace: "default", ID: id, Name: id, Type: model.JobTypeService, Priority: 50,
		Datacenters: []string{"*"}, NodePool: "default",
		TaskGroups: []*model.TaskGroup{{
			Name: "web", Count: count, Services: []*model.Service{{Name: "web-${NOMAD_ALLOC_INDEX}", Provider: "nomad"}}, Update: &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: 10 * time.Minute},
			Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Config: map[string]any{
				"command": "sleep", "args": []any{"1", 2, true, nil, 1.5}, "block": []any{map[string]any{"k": "v"}},
			}}},
		}},
	}
}

func testResources(cpu, mem int64) *model.AllocatedResources {
	return &model.AllocatedResources{
		Tasks: map[string]*model.AllocatedTaskResources{"t": {
			Cpu: model.AllocatedCpuResources{CpuShares: cpu}, Memory: model.AllocatedMemoryResources{MemoryMB: mem},
		}},
		Shared: model.AllocatedSharedResources{DiskMB: 10},
	}
}

// world proposes random commands that hang together.
type world struct {
	rng    *rand.Rand
	now    int64
	jobs   []string
	nodes  []string
	allocs []string
	evals  []string
	deps   []string
	index  uint64 // of the entry before
	f      *fsm.FSM
	// between are commands that the log has before the next one.
	between []fsm.Command
}

func newWorld(seed uint64) *world {
	return &world{rng: rand.New(rand.NewPCG(seed, 11)), f: newFSM(), now: 1_700_000_000_000_000_000, jobs: []string{"a", "b", "c"}}
}

func (w *world) id() string {
	a, b := w.rng.Uint64(), w.rng.Uint64()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
}

func pick(w *world, from []string) string {
	if len(from) == 0 || w.rng.IntN(30) == 0 {
		return w.id() // something that does not exist
	}
	return from[w.rng.IntN(len(from))]
}

func (w *world) eval(job string) *model.Evaluation {
	e := &model.Evaluation{
		ID: w.id(), Namespace: "default", JobID: job, Priority: 50, Type: "service", TriggeredBy: "job-register",
		Status:     []string{"pending", "blocked", "complete"}[w.rng.IntN(3)],
		CreateTime: w.now, ModifyTime: w.now, QueuedAllocations: map[string]int{"web": w.rng.IntN(3)},
	}
	w.evals = append(w.evals, e.ID)
	return e
}

func (w *world) plan() *fsm.ApplyPlan {
	job, evalID := pick(w, w.jobs), w.id()
	res, metrics := testResources(int64(w.rng.IntN(500)), 64), &model.AllocMetric{NodesEvaluated: w.rng.IntN(9), NodePool: "default"}
	at := w.index - uint64(w.rng.IntN(3)) // some plans are made on older state
	c := &model.Plan{EvalID: evalID, Namespace: "default", JobID: job, SnapshotIndex: at, AllAtOnce: w.rng.IntN(9) == 0}
	dep := ""
	if w.rng.IntN(2) == 0 {
		dep = w.id()
		w.deps = append(w.deps, dep)
		c.Deployment = &model.Deployment{
			ID: dep, Namespace: "default", JobID: job, Status: "running",
			TaskGroups: map[string]*model.DeploymentState{"web": {DesiredTotal: 3, ProgressDeadline: time.Minute, DesiredCanaries: w.rng.IntN(2)}},
		}
	}
	for i := range w.rng.IntN(5) {
		a := &model.Allocation{
			ID: w.id(), Name: model.AllocName(job, "web", i), NodeID: pick(w, w.nodes), NodeName: "n",
			JobVersion: uint64(w.rng.IntN(3)), TaskGroup: "web", AllocatedResources: res, Metrics: metrics, DeploymentID: dep,
		}
		if w.rng.IntN(4) == 0 {
			a.DeploymentStatus = &model.AllocDeploymentStatus{Canary: true}
		}
		if w.rng.IntN(4) == 0 {
			a.PreviousAllocation = pick(w, w.allocs)
		}
		if w.rng.IntN(20) == 0 {
			a.ID = pick(w, w.allocs) // again
		}
		w.allocs = append(w.allocs, a.ID)
		c.Place = append(c.Place, a)
	}
	for range w.rng.IntN(4) {
		ch := model.AllocChange{AllocID: pick(w, w.allocs)}
		switch ch.Kind = model.AllocChangeKind(1 + w.rng.IntN(4)); ch.Kind {
		case model.AllocStop:
			ch.Description, ch.ClientStatus = "alloc not needed", []string{"", "", "lost", "unknown"}[w.rng.IntN(4)]
			if len(c.Place) > 0 && ch.ClientStatus == "" {
				ch.PreemptedBy = c.Place[0].ID
				c.PreemptionEvals = append(c.PreemptionEvals, &model.Evaluation{ID: "p" + evalID, Namespace: "default", JobID: w.jobs[0], Status: "pending", TriggeredBy: "preemption"})
			}
		case model.AllocUpdateInPlace:
			ch.JobVersion, ch.DeploymentID = uint64(w.rng.IntN(3)), dep
		case model.AllocMarkUnknown:
			ch.At, ch.FollowupEvalID = w.now, w.id()
		case model.AllocSetFollowUp:
			ch.FollowupEvalID = w.id()
		}
		c.Change = append(c.Change, ch)
	}
	return &fsm.ApplyPlan{Plan: c, VerifiedIndex: at, UpdatedAt: w.now}
}

func (w *world) clientUpdate() *fsm.UpdateAllocsFromClient {
	c := &fsm.UpdateAllocsFromClient{At: w.now}
	for range 1 + w.rng.IntN(4) {
		a := &model.Allocation{
			ID: pick(w, w.allocs), ClientStatus: []string{"pending", "running", "complete", "failed"}[w.rng.IntN(4)],
			TaskStates: map[string]*model.TaskState{"t": {
				State: "running", LastEvent: uint64(1 + w.rng.IntN(20)), Events: []*model.TaskEvent{{Type: "Started", Time: w.now}, {Type: "Driver", Time: w.now, Message: "x"}}[:1+w.rng.IntN(2)],
			}},
		}
		if w.rng.IntN(2) == 0 {
			healthy := w.rng.IntN(3) > 0
			a.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &healthy}
		}
		c.Reports = append(c.Reports, a.ReportSince(nil))
	}
	return c
}

func (w *world) plugin() *model.PluginSpec {
	return &model.PluginSpec{
		Name: []string{"p", "q"}[w.rng.IntN(2)], MaxParallel: 1 + w.rng.IntN(3), HealthyDeadline: time.Minute, NodePool: []string{"", "gpu"}[w.rng.IntN(2)],
		Release: &model.PluginRelease{Version: fmt.Sprint(w.rng.IntN(3)), Digest: "sha256:0", Source: "/p", Config: map[string]any{"n": 1, "list": []any{"a", true, nil}}},
	}
}

// driverSchema is one of few.
func (w *world) driverSchema() *model.DriverSchema {
	driver := []string{"raw_exec", "docker"}[w.rng.IntN(2)]
	return &model.DriverSchema{Hash: fmt.Sprintf("%s-%d", driver, w.rng.IntN(3)), Driver: driver, Body: []byte(driver)}
}

func (w *world) drivers() map[string]*model.DriverInfo {
	out := map[string]*model.DriverInfo{}
	for range w.rng.IntN(3) {
		s := w.driverSchema()
		out[s.Driver] = &model.DriverInfo{Detected: w.rng.IntN(3) > 0, SchemaHash: s.Hash, PluginVersion: []string{"1", "2"}[w.rng.IntN(2)]}
	}
	return out
}

// next returns a random command.
func (w *world) next() fsm.Command {
	w.now += int64(time.Second)
	job := pick(w, w.jobs)
	yes := true
	switch w.rng.IntN(38) {
	case 23:
		return &fsm.RaiseLevel{Level: 1 + w.rng.IntN(fsm.Level)}
	case 28:
		// Proposed on a state that may be older than that to which it is applied.
		u, stale := w.clientUpdate(), w.f.Store().View()
		for range w.rng.IntN(3) {
			w.between = append(w.between, w.next())
		}
		return fsm.NewReportAllocs(stale, u.At, u.Reports, u.Evals)
	case 37:
		return &fsm.BeginTerm{ClusterID: w.id(), TermID: w.id()}
	case 34:
		return &fsm.AddDriverSchemas{Schemas: []*model.DriverSchema{w.driverSchema()}}
	case 35:
		return &fsm.MarkDriverSchemas{Hashes: []string{w.driverSchema().Hash, w.driverSchema().Hash}, At: w.now}
	case 36:
		return &fsm.DeleteDriverSchemas{Hashes: []string{w.driverSchema().Hash, w.driverSchema().Hash}, UnusedSince: w.now * int64(w.rng.IntN(2))}
	case 27:
		return &fsm.RecountJobs{}
	case 24:
		j := testJob(job, 1)
		j.Type = "batch"
		if w.rng.IntN(2) == 0 {
			j.Periodic = &model.PeriodicConfig{Enabled: true, Specs: []string{"@daily"}}
		} else {
			j.ParameterizedJob = &model.ParameterizedJobConfig{}
		}
		return &fsm.UpsertJob{Job: j}
	case 25:
		child := model.DispatchedChildID(job, "", w.now/1e9, "x")
		w.jobs = append(w.jobs, child)
		return &fsm.DispatchJob{Namespace: "default", ParentID: job, ChildID: child, Meta: map[string]string{"a": "b"}, IdempotencyToken: []string{"", "t"}[w.rng.IntN(2)], Eval: w.eval(child)}
	case 26:
		child := model.PeriodicChildID(job, w.now/1e9)
		w.jobs = append(w.jobs, child)
		return &fsm.LaunchPeriodic{Namespace: "default", ParentID: job, Launch: w.now, Skipped: []string{"", "", "why"}[w.rng.IntN(3)], Force: w.rng.IntN(2) == 0, Eval: w.eval(child)}
	case 0, 1:
		return &fsm.UpsertJob{Job: testJob(job, w.rng.IntN(4)), Eval: w.eval(job), Submission: &model.JobSubmission{Source: "x", Format: "hcl2"}}
	case 2:
		return &fsm.DeregisterJob{Namespace: "default", ID: job, Purge: w.rng.IntN(2) == 0, Eval: w.eval(job), SubmitTime: w.now}
	case 3:
		return &fsm.SetJobStability{Namespace: "default", ID: job, Version: uint64(w.rng.IntN(4)), Stable: true}
	case 4:
		return &fsm.SetJobVersionTag{Namespace: "default", ID: job, Version: uint64(w.rng.IntN(4)), Tag: &model.JobVersionTag{Name: "v", TaggedTime: w.now}}
	case 5:
		return &fsm.UpsertEvals{Evals: []*model.Evaluation{w.eval(job)}}
	case 6:
		return &fsm.DeleteEvals{EvalIDs: []string{pick(w, w.evals), pick(w, w.evals)}, AllocIDs: []string{pick(w, w.allocs), pick(w, w.allocs)}}
	case 7, 8, 9, 10:
		return w.plan()
	case 11, 12, 13:
		return w.clientUpdate()
	case 14:
		return &fsm.UpdateDesiredTransitions{Transitions: map[string]model.DesiredTransition{pick(w, w.allocs): {Migrate: &yes}}}
	case 15, 16:
		n := &model.Node{ID: w.id(), Name: "n", Datacenter: "dc1", NodePool: pick(w, []string{"default", "gpu"}), Status: "ready", StatusUpdatedAt: w.now / 1e9, Drivers: w.drivers()}
		if w.rng.IntN(3) == 0 {
			n.ID = pick(w, w.nodes) // again
		}
		w.nodes = append(w.nodes, n.ID)
		return &fsm.RegisterNode{Node: n}
	case 17:
		return &fsm.UpdateNodeStatus{NodeID: pick(w, w.nodes), Status: []string{"ready", "down"}[w.rng.IntN(2)], UpdatedAt: w.now / 1e9, Event: &model.NodeEvent{Message: "m"}}
	case 18:
		return &fsm.UpdateNodeEligibility{NodeID: pick(w, w.nodes), Eligibility: "ineligible", UpdatedAt: w.now / 1e9}
	case 19:
		return &fsm.DeregisterNodes{IDs: []string{pick(w, w.nodes)}}
	case 20:
		return &fsm.UpdateDeploymentStatus{Update: &model.DeploymentStatusUpdate{DeploymentID: pick(w, w.deps), Status: "successful", UpdatedAt: w.now}}
	case 21:
		return &fsm.PromoteDeployment{DeploymentID: pick(w, w.deps), All: true, UpdatedAt: w.now}
	case 29:
		return &fsm.RegisterPlugin{Spec: w.plugin()}
	case 30:
		return &fsm.SteerPluginRollout{Name: pick(w, []string{"p", "q"}), Act: []string{"pause", "resume", "revert", "no"}[w.rng.IntN(4)]}
	case 31:
		step := &fsm.StepPluginRollout{Name: pick(w, []string{"p", "q"}), Index: uint64(w.rng.IntN(300))}
		if w.rng.IntN(3) == 0 {
			step.Revert = "why"
		} else {
			step.Rollout = &model.PluginRollout{Status: []string{"complete", "failed", "running"}[w.rng.IntN(3)], InFlight: []*model.PluginAdmission{{NodeID: pick(w, w.nodes), Deadline: w.now}}, Cursor: "~"}
		}
		return step
	case 32:
		return &fsm.DeletePlugin{Name: pick(w, []string{"p", "q"}), CAS: w.rng.IntN(2) == 0, Index: uint64(w.rng.IntN(300))}
	case 22:
		return &fsm.DeleteDeployments{IDs: []string{pick(w, w.deps)}}
	}
	return &fsm.Batch{Commands: []fsm.Command{w.plan(), w.clientUpdate()}}
}

// log returns n encoded entries.
func (w *world) log(t testing.TB, n int) []fsm.Entry {
	t.Helper()
	var entries []fsm.Entry
	for len(entries) < n {
		w.index = uint64(1 + len(entries))
		c := w.next()
		for _, c := range append(w.between, c) {
			data, err := fsm.Encode(c)
			if err != nil {
				t.Fatal(err)
			}
			e := fsm.Entry{Index: uint64(2 + len(entries)), Data: data}
			entries = append(entries, e)
			w.f.ApplyBatch([]fsm.Entry{e})
		}
		w.between = nil
	}
	return entries[:n]
}

// applyIn applies entries in batches of random sizes.
func applyIn(f *fsm.FSM, entries []fsm.Entry, rng *rand.Rand, most int) (results []any) {
	for len(entries) > 0 {
		n := min(1+rng.IntN(most), len(entries))
		results = append(results, f.ApplyBatch(entries[:n])...)
		entries = entries[n:]
	}
	return results
}
