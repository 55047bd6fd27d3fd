// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package simulate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/simulate"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
	"github.com/drover-project/drover/sdk/errdefs"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// cluster is a state of three nodes with room for two allocs each.
func cluster(t *testing.T) *state.Store {
	s := state.New()
	invariants.AtEnd(t, s)
	update(t, s, func(tx *state.Tx) error {
		tx.BeginTerm("c", "t")
		tx.RaiseLevel(2, "")
		for i := range 3 {
			n := &model.Node{
				ID: fmt.Sprint("node-", i), Name: fmt.Sprint("n", i), Datacenter: "dc1", NodePool: "default", Status: model.NodeStatusReady,
				SchedulingEligibility: model.NodeSchedulingEligible, Attributes: map[string]string{"driver.raw_exec": "1"},
				NodeResources: &model.NodeResources{Cpu: model.NodeCpuResources{CpuShares: 1000}, Memory: model.NodeMemoryResources{MemoryMB: 1000}, Disk: model.NodeDiskResources{DiskMB: 1000}},
			}
			n.ComputedClass = n.ComputeClass()
			tx.RegisterNode(n)
		}
		return nil
	})
	return s
}

func update(t *testing.T, s *state.Store, f func(*state.Tx) error) {
	t.Helper()
	if err := s.Update(s.View().Index()+1, f); err != nil {
		t.Fatal(err)
	}
}

func register(t *testing.T, s *state.Store, id string, priority, count int) {
	t.Helper()
	update(t, s, func(tx *state.Tx) error {
		tx.UpsertJob(&model.Job{
			Region: "global", Namespace: "default", ID: id, Name: id, Type: model.JobTypeService, Priority: priority, NodePool: "default", Datacenters: []string{"*"},
			TaskGroups: []*model.TaskGroup{{
				Name: "g", Count: count, EphemeralDisk: &model.EphemeralDisk{SizeMB: 10}, ReschedulePolicy: &model.ReschedulePolicy{}, RestartPolicy: &model.RestartPolicy{Interval: time.Minute, Mode: "fail"},
				Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Resources: &model.Resources{CPU: 500, MemoryMB: 100}, LogConfig: &model.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1}}},
			}},
		}, nil)
		return nil
	})
}

func run(t *testing.T, s *state.Store, c simulate.Change) *simulate.Result {
	t.Helper()
	r, err := simulate.Run(t.Context(), s, c, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWithoutAChangeEveryJobIsPlacedTheMostImportantFirst(t *testing.T) {
	s := cluster(t)
	register(t, s, "low", 20, 4)
	register(t, s, "high", 80, 4)
	r := run(t, s, simulate.Change{})
	counts := map[string]int{}
	for _, start := range r.Starts {
		counts[start.Job]++
	}
	if counts["high"] != 4 || counts["low"] != 2 {
		t.Errorf("places: %v", counts)
	}
	if len(r.Unplaced) != 1 || r.Unplaced[0].Job != "low" || r.Unplaced[0].Missing != 2 || r.Unplaced[0].Before != 0 || r.Unplaced[0].Metric.DimensionExhausted["cpu"] != 3 {
		t.Errorf("without a place: %+v", r.Unplaced)
	}
}

func TestWhatRunsOnANodeThatVanishesOrDrainsMovesAsFarAsThereIsRoom(t *testing.T) {
	for name, change := range map[string]simulate.Change{
		"down": {NodesDown: []string{"node-0"}}, "draining": {NodesDraining: []string{"node-0"}},
	} {
		s := cluster(t)
		register(t, s, "web", 50, 5)
		run(t, s, simulate.Change{})
		there := 0
		for _, a := range s.View().AllocsByNode("node-0") {
			if !a.TerminalStatus() {
				there++
			}
		}
		r := run(t, s, change)
		if len(r.Starts) != 1 || r.Starts[0].From != "n0" || r.Starts[0].NodeName == "n0" || r.Stops != there || there != 2 {
			t.Errorf("%s: %d were there, %d stop, start: %+v", name, there, r.Stops, r.Starts)
		}
		if len(r.Unplaced) != 1 || r.Unplaced[0].Missing != 1 {
			t.Errorf("%s: without a place: %+v", name, r.Unplaced)
		}
	}
}

func TestAnotherCountIsCheckedAsInARegistration(t *testing.T) {
	s := cluster(t)
	register(t, s, "web", 50, 1)
	run(t, s, simulate.Change{})
	web := model.JobKey{Namespace: "default", ID: "web"}
	if r := run(t, s, simulate.Change{Counts: []simulate.Count{{web, "g", 3}}}); len(r.Starts) != 2 || len(r.Unplaced) != 0 {
		t.Errorf("start: %+v, without a place: %+v", r.Starts, r.Unplaced)
	}
	if _, err := simulate.Run(t.Context(), s, simulate.Change{Counts: []simulate.Count{{web, "g", -1}}}, now); err == nil {
		t.Error("a negative count was played")
	}
	for _, c := range []simulate.Change{
		{Counts: []simulate.Count{{web, "x", 1}}}, {Counts: []simulate.Count{{model.JobKey{Namespace: "default", ID: "x"}, "g", 1}}},
		{NodesDown: []string{"x"}}, {NodesDraining: []string{"x"}},
	} {
		if _, err := simulate.Run(t.Context(), s, c, now); !errdefs.IsNotFound(err) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func depends(t *testing.T, s *state.Store, id, on string) {
	t.Helper()
	register(t, s, id, 50, 2)
	update(t, s, func(tx *state.Tx) error {
		j := s.View().JobByID("default", id).Copy()
		j.DependsOn = []*model.Dependency{{Name: on, Condition: model.DependencyStarted}}
		tx.UpsertJob(j, nil)
		return nil
	})
}

func TestGroupsThatTheirDependenciesHoldBackAreListed(t *testing.T) {
	s := cluster(t)
	register(t, s, "db", 50, 1)
	depends(t, s, "app", "db")
	r := run(t, s, simulate.Change{})
	if len(r.Starts) != 1 || r.Starts[0].Job != "db" || len(r.Unplaced) != 0 {
		t.Errorf("start: %+v, without a place: %+v", r.Starts, r.Unplaced)
	}
	if len(r.Held) != 1 || r.Held[0].Job != "app" || r.Held[0].Group != "g" || r.Held[0].Hold.Allocs != 2 || r.Held[0].Hold.String() != `waits for job "db" to be started: 0 of 1 allocs are` {
		t.Errorf("held back: %+v", r.Held)
	}
	// What it depends on is not wanted any more, so there is nothing to wait for.
	r = run(t, s, simulate.Change{Counts: []simulate.Count{{Job: model.JobKey{Namespace: "default", ID: "db"}, Group: "g", Count: 0}}})
	if len(r.Starts) != 2 || r.Starts[0].Job != "app" || len(r.Held) != 0 {
		t.Errorf("start: %+v, held back: %+v", r.Starts, r.Held)
	}
}

func TestWhatHadNoPlaceGetsTheRoomThatAChangeMakes(t *testing.T) {
	s := cluster(t)
	register(t, s, "first", 60, 6)
	register(t, s, "second", 50, 2)
	if r := run(t, s, simulate.Change{}); len(r.Starts) != 6 || len(r.Unplaced) != 1 || r.Unplaced[0].Missing != 2 {
		t.Fatalf("%d start, without a place: %+v", len(r.Starts), r.Unplaced)
	}
	r := run(t, s, simulate.Change{Counts: []simulate.Count{{Job: model.JobKey{Namespace: "default", ID: "first"}, Group: "g", Count: 5}}})
	if len(r.Starts) != 1 || r.Starts[0].Job != "second" || len(r.Unplaced) != 1 || r.Unplaced[0].Missing != 1 || r.Unplaced[0].Before != 2 {
		t.Errorf("start: %+v, without a place: %+v", r.Starts, r.Unplaced[0])
	}
}
