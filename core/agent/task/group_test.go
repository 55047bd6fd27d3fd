// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
)

// crew is a group whose tasks are carried out by hand: what is asked for waits
// in todo until the test does it.
type crew struct {
	t      *testing.T
	tg     *model.TaskGroup
	specs  map[string]task.Spec
	states map[string]task.State
	stop   task.StopRequest
	todo   map[string]task.Effect // by task: the start or stop that is asked for
	log    []string

	now     time.Time
	healthy map[string]bool
}

// newCrew makes a group of tasks written as "name", "name:hook", "name:hook:sidecar"
// or "name:leader".
func newCrew(t *testing.T, tasks ...string) *crew {
	c := &crew{t: t, tg: &model.TaskGroup{Name: "g"}, specs: map[string]task.Spec{}, states: map[string]task.State{}, todo: map[string]task.Effect{}, now: t0, healthy: map[string]bool{}}
	for _, s := range tasks {
		part := strings.Split(s, ":")
		x := &model.Task{Name: part[0], Leader: slices.Contains(part, "leader")}
		if len(part) > 1 && part[1] != "leader" {
			x.Lifecycle = &model.TaskLifecycleConfig{Hook: part[1], Sidecar: slices.Contains(part, "sidecar")}
		}
		c.tg.Tasks = append(c.tg.Tasks, x)
		ends := x.Lifecycle != nil && !x.Lifecycle.Sidecar
		c.specs[x.Name] = spec(func(s *task.Spec) { s.EndsWell, s.Restart.Attempts = ends, 0 })
		c.states[x.Name] = task.New(t0)
	}
	c.settle()
	return c
}

func (c *crew) step(name string, ev task.Event) {
	s, effects := task.Step(c.specs[name], c.states[name], ev, c.now)
	c.states[name] = s
	for _, e := range effects {
		switch e.(type) {
		case task.Start, task.Stop:
			c.todo[name] = e
			c.log = append(c.log, strings.Fields(describe(e))[0]+" "+name)
		}
	}
}

func (c *crew) settle() {
	for range 100 {
		actions := task.Order(c.tg, c.states, c.stop, task.Facts{Now: c.now, Healthy: c.healthy})
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			c.step(a.Task, a.Event)
		}
	}
	c.t.Fatal("the order never comes to rest")
}

// do carries out what is asked of the named tasks: they start, or end as asked.
func (c *crew) do(names ...string) {
	c.t.Helper()
	for _, n := range names {
		e, ok := c.todo[n]
		if !ok {
			c.t.Fatalf("nothing is asked of %q; log %v", n, c.log)
		}
		delete(c.todo, n)
		run := c.states[n].Run
		if _, start := e.(task.Start); start {
			c.step(n, task.Started{Run: run})
		} else {
			c.step(n, task.Exited{Run: run, ExitCode: 130, Signal: 2})
		}
		c.settle()
	}
}

func (c *crew) exits(name string, code int) {
	c.t.Helper()
	c.step(name, task.Exited{Run: c.states[name].Run, ExitCode: code})
	c.settle()
}

// wants is what is asked for and not done yet.
func (c *crew) wants(want string) {
	c.t.Helper()
	var got []string
	for n, e := range c.todo {
		got = append(got, strings.Fields(describe(e))[0]+" "+n)
	}
	slices.Sort(got)
	if g := strings.Join(got, ", "); g != want {
		c.t.Fatalf("asked for: %s\nwant: %s\nlog: %v", g, want, c.log)
	}
}

func (c *crew) events(name string) string {
	var out []string
	for _, e := range c.states[name].Report.Events {
		out = append(out, e.DisplayMessage)
	}
	return strings.Join(out, "; ")
}

func TestMainTasksBeginWhenAllOfPrestartHasEndedOrRunsBeside(t *testing.T) {
	c := newCrew(t, "main", "init:prestart", "init2:prestart", "proxy:prestart:sidecar", "hello:poststart", "watch:poststart:sidecar", "bye:poststop")
	c.wants("start init, start init2, start proxy")
	c.do("init", "init2")
	c.exits("init", 0)
	c.exits("init2", 0)
	c.wants("start proxy") // a sidecar that has not started holds the main task back
	c.do("proxy")
	c.wants("start main")
	c.do("main")
	c.wants("start hello, start watch")
}

func TestAFailingPrestartTaskFailsTheGroupAndPoststopRuns(t *testing.T) {
	c := newCrew(t, "main", "init:prestart", "proxy:prestart:sidecar", "bye:poststop")
	c.do("init", "proxy")
	c.exits("init", 1)
	c.wants("stop proxy")
	c.do("proxy")
	c.wants("start bye")
	c.do("bye")
	c.exits("bye", 0)
	if s := c.states["main"]; s.Run != 0 || s.Phase != task.Dead || !c.states["init"].Report.Failed {
		t.Errorf("main %+v", s)
	}
	if got := c.events("main"); !strings.Contains(got, `Task's sibling "init" failed`) {
		t.Error(got)
	}
}

func TestAPrestartTaskIsRestartedByItsPolicyBeforeItFailsTheGroup(t *testing.T) {
	c := newCrew(t, "main", "init:prestart")
	c.specs["init"] = spec(func(s *task.Spec) { s.EndsWell, s.Restart.Delay = true, 0 })
	c.do("init")
	c.exits("init", 1)
	if s := c.states["init"]; s.Phase != task.Backoff {
		t.Fatalf("%+v", s)
	}
	c.step("init", task.Wake{})
	c.do("init")
	c.exits("init", 0)
	c.wants("start main")
}

func TestAStopEndsTheLeaderFirstAndSidecarsLast(t *testing.T) {
	c := newCrew(t, "main", "boss:leader", "proxy:prestart:sidecar", "watch:poststart:sidecar", "bye:poststop")
	c.do("proxy", "main", "boss", "watch")
	c.stop.Wanted = true
	c.settle()
	c.wants("stop boss")
	c.do("boss")
	c.wants("stop main")
	c.do("main")
	c.wants("stop proxy, stop watch")
	c.do("proxy")
	c.wants("stop watch")
	c.do("watch")
	c.wants("start bye")
	c.do("bye")
	c.exits("bye", 0)
	for n, s := range c.states {
		if s.Phase != task.Dead || s.Report.Failed {
			t.Errorf("%s: %+v", n, s)
		}
	}
}

func TestTheDeathOfTheLeaderEndsTheGroup(t *testing.T) {
	c := newCrew(t, "main", "boss:leader", "proxy:prestart:sidecar")
	c.specs["boss"] = spec(func(s *task.Spec) { s.EndsWell = true })
	c.do("proxy", "main", "boss")
	c.exits("boss", 0)
	c.wants("stop main")
	if got := c.events("main"); !strings.Contains(got, "Leader Task in Group dead") {
		t.Error(got)
	}
	c.do("main")
	c.wants("stop proxy")
}

func TestSidecarsEndWhenTheWorkIsDone(t *testing.T) {
	c := newCrew(t, "main", "proxy:prestart:sidecar", "hello:poststart")
	c.specs["main"] = spec(func(s *task.Spec) { s.EndsWell = true })
	c.do("proxy", "main", "hello")
	c.exits("main", 0)
	c.wants("") // a poststart task may finish what it does
	c.exits("hello", 0)
	c.wants("stop proxy")
	if got := c.events("proxy"); !strings.Contains(got, "Main tasks in the group died") {
		t.Error(got)
	}
}

func TestNothingRunsOfAGroupThatIsStoppedBeforeItBegan(t *testing.T) {
	c := newCrew(t, "main", "bye:poststop")
	c = &crew{t: t, tg: c.tg, specs: c.specs, states: map[string]task.State{"main": task.New(t0), "bye": task.New(t0)}, todo: map[string]task.Effect{}, stop: task.StopRequest{Wanted: true}}
	c.settle()
	c.wants("")
	if c.states["main"].Phase != task.Dead || c.states["bye"].Phase != task.Dead {
		t.Errorf("%+v", c.states)
	}
}

func TestAllTasksRunAgainInTheirOrder(t *testing.T) {
	c := newCrew(t, "main", "init:prestart", "hello:poststart", "bye:poststop")
	c.do("init")
	c.exits("init", 0)
	c.do("main", "hello")
	c.exits("hello", 0)
	for _, n := range []string{"main", "init", "hello"} {
		c.step(n, task.Rerun{Reason: "again"})
	}
	c.settle()
	c.wants("stop main")
	c.do("main")
	c.wants("start init")
	c.do("init")
	c.exits("init", 0)
	c.wants("start main")
	c.do("main")
	c.wants("start hello")
}

// Whatever happens to its tasks, a group that is stopped ends, poststop runs once
// the rest is dead, and no main task runs before prestart has ended.
func TestEveryGroupEndsWhateverHappens(t *testing.T) {
	shapes := []string{"a", "b:leader", "p:prestart", "q:prestart:sidecar", "s:poststart", "u:poststart:sidecar", "z:poststop"}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		tasks := []string{"m"}
		for _, s := range shapes {
			if rnd.IntN(2) == 0 {
				tasks = append(tasks, s)
			}
		}
		c := newCrew(t, tasks...)
		for n := range c.specs {
			s := c.specs[n]
			s.Restart.Attempts, s.EndsWell = rnd.IntN(2), s.EndsWell || rnd.IntN(2) == 0
			c.specs[n] = s
		}
		for i := range 400 {
			if i == 200 {
				c.stop.Wanted = true
				c.settle()
			}
			c.random(rnd, i < 200)
			c.check(seed)
		}
		for n, s := range c.states {
			if s.Phase != task.Dead {
				t.Fatalf("seed %d %v: %s is %s; log %v", seed, tasks, n, s.Phase, c.log)
			}
		}
	}
}

func (c *crew) random(rnd *rand.Rand, rerun bool) {
	t := c.tg.Tasks[rnd.IntN(len(c.tg.Tasks))]
	s := c.states[t.Name]
	switch {
	case rerun && rnd.IntN(20) == 0 && !task.Ending(c.tg, c.states, c.stop):
		for _, x := range c.tg.Tasks {
			if task.Hook(x) != model.TaskLifecycleHookPoststop {
				c.step(x.Name, task.Rerun{Reason: "again"})
			}
		}
	case c.todo[t.Name] != nil && rnd.IntN(5) > 0:
		c.do(t.Name)
	case s.Phase == task.Starting:
		delete(c.todo, t.Name)
		c.step(t.Name, task.StartFailed{Run: s.Run, Err: "x", Retry: rnd.IntN(2) == 0})
	case s.Phase == task.Running || s.Phase == task.Stopping:
		delete(c.todo, t.Name)
		c.step(t.Name, task.Exited{Run: s.Run, ExitCode: rnd.IntN(2)})
	case s.Phase == task.Backoff:
		later, effects := task.Step(c.specs[t.Name], s, task.Wake{}, s.WakeAt)
		c.states[t.Name], c.todo[t.Name] = later, effects[0]
	}
	c.settle()
}

func (c *crew) check(seed uint64) {
	c.t.Helper()
	prestart, rest := true, true
	for _, t := range c.tg.Tasks {
		s := c.states[t.Name]
		if task.Hook(t) == model.TaskLifecycleHookPrestart && !task.Sidecar(t) {
			prestart = prestart && !s.Alive()
		}
		if task.Hook(t) != model.TaskLifecycleHookPoststop {
			rest = rest && s.Phase == task.Dead
		}
	}
	for _, t := range c.tg.Tasks {
		s := c.states[t.Name]
		if task.Hook(t) == "" && s.Phase == task.Running && !prestart && !s.RerunWanted {
			c.t.Fatalf("seed %d: %s runs while prestart does; log %v", seed, t.Name, c.log)
		}
		if task.Hook(t) == model.TaskLifecycleHookPoststop && s.Alive() && !rest {
			c.t.Fatalf("seed %d: %s runs before the rest is dead; log %v", seed, t.Name, c.log)
		}
	}
}
