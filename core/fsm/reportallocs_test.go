// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// reporting returns a state machine of this build's level with placed allocs.
func reporting(t *testing.T, ids ...string) *fsm.FSM {
	t.Helper()
	return reportingAt(t, fsm.Level, ids...)
}

func reportingAt(t *testing.T, level int, ids ...string) *fsm.FSM {
	t.Helper()
	f := newFSM()
	mustApply(t, f, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	mustApply(t, f, &fsm.RaiseLevel{Level: level})
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 1)})
	placeMore(t, f, ids...)
	return f
}

func placeMore(t *testing.T, f *fsm.FSM, ids ...string) {
	t.Helper()
	var allocs []*model.Allocation
	for _, id := range ids {
		allocs = append(allocs, &model.Allocation{ID: id, Name: "web.web[0]", TaskGroup: "web"})
	}
	mustApply(t, f, place(t, f, allocs...))
}

func runningReports(ids ...string) (out []*model.AllocReport) {
	for _, id := range ids {
		out = append(out, &model.AllocReport{ID: id, ClientStatus: "running", ClientDescription: "Tasks are running"})
	}
	return out
}

func statuses(f *fsm.FSM) map[string]string {
	out := map[string]string{}
	for a := range f.Store().View().Allocs() {
		out[a.ID] = a.ClientStatus
	}
	return out
}

const (
	nearA = "0b5e8d2c-6f1a-4c3e-9d7b-8a6f5e4d3c2b"
	nearB = "0b5e8d2c-6f1a-4c3e-9d7b-8a6f5e4d3c2c" // its last byte is another one
	nearC = "0b5e8d2c-6f00-4c3e-9d7b-8a6f5e4d3c2c"
	far   = "ffffffff-ffff-4fff-8fff-ffffffffffff"
	named = "an-id-that-is-no-uuid"
)

func TestReportsByShortIDsGiveTheStateOfReportsByWholeIDs(t *testing.T) {
	for level := fsm.LevelReportAllocs; level <= fsm.Level; level++ {
		for _, unit := range []int64{1, 1e6} { // of the times that nodes send
			t.Run(fmt.Sprintf("level %d, times in %d ns", level, unit), func(t *testing.T) { reportBothWays(t, level, unit) })
		}
	}
}

func reportBothWays(t *testing.T, level int, unit int64) {
	rng := rand.New(rand.NewPCG(7, 8))
	w := newWorld(3)
	var ids []string
	for range 300 {
		id := w.id()
		if rng.IntN(3) == 0 && len(ids) > 0 { // share the beginning with another
			n := 1 + rng.IntN(35)
			id = ids[rng.IntN(len(ids))][:n] + id[n:]
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	ids = append(ids, nearA, nearB, nearC, far, named)
	short, whole := reportingAt(t, level, ids...), reportingAt(t, level, ids...)
	deployments := []string{deployed, far, "a-deployment"} // that of half of the allocs, and others
	for _, f := range []*fsm.FSM{short, whole} {
		deploy(t, f, deployed, ids[:150]...)
	}
	for range 10 {
		rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		w.now += 1e9
		c := &fsm.UpdateAllocsFromClient{At: w.now, Evals: []*model.Evaluation{{ID: w.id(), Namespace: "default", JobID: "web", Status: "pending"}}}
		for _, id := range ids[:rng.IntN(len(ids))] {
			at := (w.now - rng.Int64N(1e9)) / unit * unit
			r := &model.AllocReport{
				ID: id, ClientStatus: []string{"", "running", "failed"}[rng.IntN(3)], Network: &model.AllocNetworkStatus{Address: "10.0.0.1"},
				Tasks: map[string]*model.TaskReport{fmt.Sprint("t", rng.IntN(3)): {State: "running", Restarts: rng.Uint64N(3), StartedAt: &at, Events: usual(at, unit)[:rng.IntN(9)]}},
			}
			if rng.IntN(2) == 0 {
				r.Health = &model.HealthReport{DeploymentID: deployments[rng.IntN(3)], Healthy: rng.IntN(2) == 0}
			}
			c.Reports = append(c.Reports, r)
		}
		view := short.Store().View()
		mustApply(t, short, fsm.NewReportAllocs(view, c.At, c.Reports, c.Evals))
		mustApply(t, whole, c)
		if hashOf(t, short) != hashOf(t, whole) {
			t.Fatalf("the states differ: %s", cmp.Diff(statuses(short), statuses(whole)))
		}
	}
}

const deployed = "5f0c1e9a-3b7d-4e21-8f66-0a1b2c3d4e5f"

// deploy makes a deployment that allocs belong to.
func deploy(t *testing.T, f *fsm.FSM, deployment string, ids ...string) {
	t.Helper()
	plan := place(t, f)
	plan.Plan.Deployment = &model.Deployment{ID: deployment, Namespace: "default", JobID: "web", Status: model.DeploymentStatusRunning, TaskGroups: map[string]*model.DeploymentState{"web": {DesiredTotal: len(ids)}}}
	for _, id := range ids {
		plan.Plan.Change = append(plan.Plan.Change, model.AllocChange{Kind: model.AllocUpdateInPlace, AllocID: id, DeploymentID: deployment})
	}
	mustApply(t, f, plan)
}

// A node reports health in the deployment that it knows. The alloc may belong to another one
// when the entry is applied.
func TestHealthIsNeverThatInALaterDeployment(t *testing.T) {
	f := reporting(t, nearA)
	deploy(t, f, deployed, nearA)
	healthy := &model.AllocReport{ID: nearA, Health: &model.HealthReport{DeploymentID: deployed, Healthy: true}}
	c := fsm.NewReportAllocs(f.Store().View(), reportedAt, []*model.AllocReport{healthy}, nil)
	deploy(t, f, far, nearA)
	if _, got := apply(t, f, c); !errors.Is(got.(error), fsm.ErrReportsOutdated) {
		t.Errorf("got %v", got)
	}
	if s := f.Store().View().AllocByID(nearA).DeploymentStatus; s.IsHealthy() {
		t.Errorf("healthy in the later deployment: %+v", s)
	}
}

// Nodes of earlier releases send times of nanoseconds. One of them keeps no other from being
// stored in few bytes, but for the entry that they share.
func TestFinerTimesAreStoredAsTheyAre(t *testing.T) {
	f := reporting(t, nearA, far)
	at := reportedAt/1_000_000*1_000_000 + 123_456
	report := func(id string, at int64) *model.AllocReport {
		return &model.AllocReport{ID: id, ClientStatus: "running", Tasks: map[string]*model.TaskReport{"t": {State: "running", StartedAt: &at, Events: usual(at, 1)[:1]}}}
	}
	mustApply(t, f, fsm.NewReportAllocs(f.Store().View(), reportedAt, []*model.AllocReport{report(nearA, at), report(far, at-123_456)}, nil))
	for id, want := range map[string]int64{nearA: at, far: at - 123_456} {
		if got := f.Store().View().AllocByID(id).TaskStates["t"].StartedAt; got == nil || got.UnixNano() != want {
			t.Errorf("%s started at %v, want %d", id, got, want)
		}
	}
}

// Between the proposal and its application other entries may come.
func TestAReportMeansTheAllocsOfTheStateOnWhichItWasProposed(t *testing.T) {
	f := reporting(t, nearA)
	c := fsm.NewReportAllocs(f.Store().View(), reportedAt, runningReports(nearA), nil)
	placeMore(t, f, nearB, nearC, far)
	mustApply(t, f, c)
	if d := cmp.Diff(map[string]string{nearA: "running", nearB: "pending", nearC: "pending", far: "pending"}, statuses(f)); d != "" {
		t.Error(d)
	}
}

func TestAReportOnAStateThatIsGoneChangesNothing(t *testing.T) {
	outdated := func(t *testing.T, f *fsm.FSM, c fsm.Command) {
		t.Helper()
		before := statuses(f)
		_, got := apply(t, f, c)
		if err, _ := got.(error); !errors.Is(err, fsm.ErrReportsOutdated) || !errdefs.IsAborted(err) {
			t.Errorf("got %v", got)
		}
		if d := cmp.Diff(before, statuses(f)); d != "" {
			t.Error(d)
		}
	}
	t.Run("one was deleted", func(t *testing.T) {
		f := reporting(t, nearA, far)
		c := fsm.NewReportAllocs(f.Store().View(), reportedAt, runningReports(nearA, far), nil)
		mustApply(t, f, &fsm.DeleteEvals{AllocIDs: []string{nearA}})
		outdated(t, f, c)
	})
	t.Run("an older snapshot was restored", func(t *testing.T) {
		f := reporting(t, nearB, far) // nearB is deleted later, and back with the snapshot
		old := snapshotOf(t, f)
		mustApply(t, f, &fsm.DeleteEvals{AllocIDs: []string{nearB}})
		placeMore(t, f, nearA)
		c := fsm.NewReportAllocs(f.Store().View(), reportedAt, runningReports(nearA, far), nil)
		if err := f.Restore(bytes.NewReader(old)); err != nil {
			t.Fatal(err)
		}
		outdated(t, f, c)
	})
}

// A short batch alloc takes two reports, and 100 of each in an entry. Beside them the log
// has about 93 bytes of an alloc. Servers of level 2 cannot read milliseconds.
func TestAShortBatchAllocIsReportedInFewBytes(t *testing.T) {
	for level, most := range map[int]int{2: 26, 3: 15} {
		const n = 100
		running, ended := shortBatch(n)
		var ids []string
		for _, r := range running.Reports {
			ids = append(ids, r.ID)
		}
		f, size := reportingAt(t, level, ids...), 0
		for _, c := range []*fsm.UpdateAllocsFromClient{running, ended} {
			data := encode(t, fsm.NewReportAllocs(f.Store().View(), c.At, c.Reports, nil))
			if got := fsm.Needs(data); got != level {
				t.Errorf("level %d: the entry needs level %d", level, got)
			}
			size += len(data)
		}
		t.Logf("level %d: %d bytes an alloc", level, size/n)
		if size/n > most {
			t.Errorf("level %d: an alloc takes %d bytes", level, size/n)
		}
	}
}

func TestDamagedShortReportsAreRefusedAndNeverPanic(t *testing.T) {
	f := reporting(t, nearA, nearB, far, named)
	reports := runningReports(nearA, nearB, far, named)
	reports[1].Tasks = eventsReport(usual(reportedAt, 1)...).Reports[0].Tasks
	data := encode(t, fsm.NewReportAllocs(f.Store().View(), reportedAt, reports, nil))
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		bad := slices.Clone(data)
		for range 1 + rng.IntN(3) {
			bad[3+rng.IntN(len(bad)-3)] = byte(rng.Uint32())
		}
		bad = bad[:3+rng.IntN(len(bad)-2)]
		if _, err := fsm.Decode(bad); err != nil && !errdefs.IsInvalidArgument(err) {
			t.Fatal(err)
		}
	}
}

// Entries of the log refer to usual forms by their position.
func TestUsualFormsStayTheSame(t *testing.T) {
	var lines []string
	for i, form := range fsm.UsualForms() {
		line := hex.EncodeToString(form)
		if slices.Contains(lines, line) {
			t.Errorf("form %d is there twice", i)
		}
		lines = append(lines, line)
	}
	for i, l := range golden(t, "usualforms.txt", lines) {
		if i >= len(lines) || lines[i] != l {
			t.Fatalf("form %d of testdata/usualforms.txt is no longer %s: forms may only be appended", i, l)
		}
	}
	if len(golden(t, "usualforms.txt", lines)) != len(lines) {
		t.Error("a form is new: run `go test ./core/fsm -update`")
	}
}
