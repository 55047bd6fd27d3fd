// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
)

// depends makes a crew of which tasks depend on others, written as "web db healthy 5m".
func depends(t *testing.T, tasks []string, deps ...string) *crew {
	c := newCrew(t)
	for _, name := range tasks {
		c.tg.Tasks = append(c.tg.Tasks, &model.Task{Name: name})
		c.specs[name] = spec(func(s *task.Spec) { s.EndsWell, s.Restart.Attempts = true, 1 })
		c.states[name] = task.New(t0)
	}
	for _, text := range deps {
		f := strings.Fields(text)
		d := &model.Dependency{Name: f[1], Condition: f[2]}
		if len(f) > 3 {
			limit, err := time.ParseDuration(f[3])
			if err != nil {
				t.Fatal(err)
			}
			d.Timeout = limit
		}
		x := c.tg.LookupTask(f[0])
		x.DependsOn = append(x.DependsOn, d)
	}
	c.settle()
	return c
}

func TestATaskStartsWhenThoseStartedOnWhichItDepends(t *testing.T) {
	c := depends(t, []string{"web", "db", "cache"}, "web db started", "web cache started")
	c.wants("start cache, start db")
	c.do("db")
	c.wants("start cache")
	c.do("cache")
	c.wants("start web")
	c.do("web")
	if got := c.events("web"); strings.Count(got, "The task waits for") != 1 {
		t.Errorf("events of web: %s", got)
	}
	c.exits("db", 1) // a restart of it holds nobody back
	if s := c.states["web"]; s.Phase != task.Running {
		t.Errorf("web is %s after a restart of db", s.Phase)
	}
}

func TestATaskStartsWhenThoseAreHealthyOnWhichItDepends(t *testing.T) {
	c := depends(t, []string{"db", "web"}, "web db healthy")
	c.do("db")
	c.wants("")
	if held := task.HeldBack(c.tg, c.states, task.Facts{Now: c.now}); held["web"] != `task "db" to be healthy` {
		t.Errorf("held back: %v", held)
	}
	if !task.Awaited(c.tg, c.states)["db"] {
		t.Error("nobody asks for the health of db")
	}
	c.healthy["db"] = true
	c.settle()
	c.wants("start web")
	c.do("web")
	if len(task.Awaited(c.tg, c.states)) != 0 {
		t.Error("the health of db is still asked for")
	}
}

func TestATaskStartsWhenThoseAreCompleteOnWhichItDepends(t *testing.T) {
	c := depends(t, []string{"extract", "load", "report"}, "load extract complete", "report load complete")
	c.do("extract")
	c.wants("")
	c.exits("extract", 0)
	c.wants("start load")
	c.do("load")
	c.exits("load", 0)
	c.wants("start report")
}

func TestAFailedDependencyEndsTheGroupAndItsDependentsNeverStart(t *testing.T) {
	c := depends(t, []string{"extract", "load"}, "load extract complete")
	sp := c.specs["extract"]
	sp.Restart.Attempts = 0
	c.specs["extract"] = sp
	c.do("extract")
	c.exits("extract", 1)
	if s := c.states["load"]; s.Phase != task.Dead || s.Run != 0 {
		t.Errorf("load is %s after %d starts", s.Phase, s.Run)
	}
}

func TestATaskThatHasWaitedTooLongFailsWithWords(t *testing.T) {
	c := depends(t, []string{"db", "web"}, "web db healthy 30s")
	c.do("db")
	if at := task.NextTimeout(c.tg, c.states); !at.Equal(t0.Add(30 * time.Second)) {
		t.Errorf("the timeout is at %s", at)
	}
	c.now = t0.Add(29 * time.Second)
	c.settle()
	if c.states["web"].Phase != task.Waiting {
		t.Fatal("it failed too early")
	}
	c.now = t0.Add(30 * time.Second)
	c.settle()
	if s := c.states["web"]; s.Phase != task.Dead || !s.Report.Failed || !strings.Contains(c.events("web"), `The task has waited 30s for task "db" to be healthy`) {
		t.Errorf("web is %s, failed %t: %s", s.Phase, s.Report.Failed, c.events("web"))
	}
	c.wants("stop db")
}

func TestTasksThatRunAgainWaitForTheirDependenciesAgain(t *testing.T) {
	c := depends(t, []string{"db", "web"}, "web db started")
	c.do("db", "web")
	for _, name := range []string{"db", "web"} {
		c.step(name, task.Rerun{Reason: "r"})
	}
	c.settle()
	c.wants("stop db, stop web")
	c.do("web", "db")
	c.wants("start db")
	c.do("db")
	c.wants("start web")
}

func TestAnyAcyclicDependenciesAreStartedInOrderAndAll(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for bits := range 1 << 6 { // every acyclic graph of which edges go from later to earlier names
		var deps []string
		n := 0
		for i := range names {
			for j := range i {
				if bits&(1<<n) != 0 {
					deps = append(deps, names[i]+" "+names[j]+" started")
				}
				n++
			}
		}
		c := depends(t, []string{"c", "a", "d", "b"}, deps...)
		for len(c.todo) > 0 {
			var next []string
			for name := range c.todo {
				next = append(next, name)
			}
			slices.Sort(next)
			c.do(next[len(next)-1])
		}
		for _, text := range deps {
			f := strings.Fields(text)
			if first, then := slices.Index(c.log, "start "+f[1]), slices.Index(c.log, "start "+f[0]); first < 0 || then < first {
				t.Fatalf("%v: %v", deps, c.log)
			}
		}
		if len(c.log) != len(names) {
			t.Fatalf("%v: not all started: %v", deps, c.log)
		}
	}
}
