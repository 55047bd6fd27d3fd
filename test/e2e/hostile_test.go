// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/test/e2e/harness"
)

// chaos is an agent with live tasks whose processes are killed and paused.
type chaos struct {
	*agent
	rng    *rand.Rand
	work   []*piece
	faults map[string]int
}

// piece is a batch alloc that must run exactly once and end with its exit code.
type piece struct {
	job   string
	code  int
	alone bool // no process was alive that could have seen its exit
}

// helpers returns the supervisor's processes with a role. A process that starts a
// task has the same command line until it becomes the task, and is excluded.
func (c *chaos) helpers(role string) []int {
	all := c.Processes("__drover-supervise " + role)
	return slices.DeleteFunc(slices.Clone(all), func(pid int) bool { return slices.Contains(all, harness.Parent(pid)) })
}

// fault injects a fault and reports whether exit codes may be lost because of it.
// Afterwards the agent's process runs.
func (c *chaos) fault() (name string, losesCodes bool) {
	restart := func() { c.Kill(); c.start() }
	killAll := func(pids ...[]int) {
		for _, pid := range slices.Concat(pids...) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	pause := func(pids []int) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
		}
		<-time.After(time.Duration(200+c.rng.IntN(1500)) * time.Millisecond) // the length of the pause is part of the fault
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	plugin := func() []int {
		if pid := c.Child(); pid != 0 {
			return []int{pid}
		}
		return nil
	}
	faults := []struct {
		name  string
		loses bool
		do    func()
	}{
		{"agent killed", false, restart},
		{"plugin killed", false, func() { killAll(plugin()) }},
		{"supervisor killed", false, func() { killAll(c.helpers("loop")) }},
		{"keeper killed", false, func() { killAll(c.helpers("keep")) }},
		{"agent and plugin killed", false, func() { killAll(plugin()); restart() }},
		{"agent and supervisor killed", false, func() { killAll(c.helpers("loop")); restart() }},
		{"plugin and supervisor killed", false, func() { killAll(plugin(), c.helpers("loop")) }},
		{"keeper and supervisor killed", true, func() { killAll(c.helpers("keep"), c.helpers("loop")) }},
		{"all but the tasks killed", true, func() { killAll(plugin(), c.helpers("keep"), c.helpers("loop")); restart() }},
		{"supervisor paused", false, func() { pause(c.helpers("loop")) }},
		{"plugin paused", false, func() { pause(plugin()) }},
		{"agent paused", false, func() { pause([]int{c.Cmd.Process.Pid}) }},
	}
	f := faults[c.rng.IntN(len(faults))]
	f.do()
	c.faults[f.name]++
	return f.name, f.loses
}

// batch starts an alloc that records that it ran, runs for a moment and exits.
func (c *chaos) batch(round, n int) {
	p := &piece{job: fmt.Sprintf("work-%d-%d", round, n), code: c.rng.IntN(3) * (1 + c.rng.IntN(100))}
	script := fmt.Sprintf("echo ran >> $NOMAD_ALLOC_DIR/mark; sleep 0.%03d; exit %d", c.rng.IntN(999), p.code)
	if n%2 == 0 {
		c.agent.Run(c.isolated(p.job, "batch", 1, script))
	} else {
		c.agent.Run(harness.Shell(p.job, "batch", 1, harness.OnlyOnce, script))
	}
	c.work = append(c.work, p)
}

// marks returns how often an alloc's task has run.
func (c *chaos) marks(alloc string) int {
	body, _ := os.ReadFile(c.Path(alloc, "alloc/mark")) // it never ran
	return strings.Count(string(body), "\n")
}

// judge returns what happened to a piece that has ended: as expected, refused (it
// never ran, and its alloc says so), lost, or run twice.
func (c *chaos) judge(p *piece) (verdict, detail string) {
	allocs := c.Allocs(p.job, "")
	if len(allocs) != 1 {
		return "doubled", fmt.Sprintf("%s has %d allocs", p.job, len(allocs))
	}
	x := allocs[0]
	ran, code := c.marks(x.ID), exitCode(c.agent, x.ID)
	detail = fmt.Sprintf("%s (alloc %s) is %s, ran %d times and ended with %d, not %d: %s", p.job, x.ID, x.ClientStatus, ran, code, p.code, events(x))
	right := model.AllocClientStatusFailed
	if p.code == 0 {
		right = model.AllocClientStatusComplete
	}
	switch {
	case ran > 1:
		return "doubled", detail
	case ran == 0 && x.ClientStatus == model.AllocClientStatusFailed:
		return "refused", detail
	case ran == 1 && x.ClientStatus == right && code == p.code, p.alone && x.ClientStatus == model.AllocClientStatusFailed:
		return "", ""
	}
	return "lost", detail
}

// events formats the types and messages of a task's events.
func events(x *model.AllocListStub) string {
	var out []string
	for _, e := range x.TaskStates["t"].Events {
		out = append(out, e.Type+" ("+e.DisplayMessage+")")
	}
	return strings.Join(out, ", ")
}

// TestHostileChaosOfAllProcessesOfANode kills and pauses agent, plugin, supervisor
// and keeper in all combinations while 20 service tasks run and batch allocs come
// and go: no task is lost, none runs twice, and none runs without an alloc.
func TestHostileChaosOfAllProcessesOfANode(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &chaos{agent: newAgent(t), rng: rand.New(rand.NewPCG(seed, 0)), faults: map[string]int{}}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(c.Dir, "state/driver-exec/supervisor.log")) // it may not exist
			t.Logf("the supervisor's log ends:\n%s", log[max(0, len(log)-4000):])
		}
	})
	c.Configure("client {\n  gc_max_allocs = 5000\n}\n") // ended allocs are inspected at the end
	c.withExec()
	c.agent.Run(harness.Shell("raw", "service", 12, "", "exec sleep 601"))
	c.agent.Run(c.isolated("isolated", "service", 8, "exec sleep 601"))
	raw := c.Await("raw", model.AllocClientStatusRunning, 12)
	isolated := c.Await("isolated", model.AllocClientStatusRunning, 8)
	c.Eventually(10*time.Second, "20 tasks live", func() bool { return len(c.sleepers()) == 20 })
	before := c.sleepers()

	rounds, count := testkit.HostileRounds(t, 6), map[string]int{}
	for round := range rounds {
		first := len(c.work)
		for n := range 3 {
			c.batch(round, n)
		}
		<-time.After(time.Duration(c.rng.IntN(700)) * time.Millisecond) // at a random moment
		var names []string
		for range 1 + c.rng.IntN(2) {
			name, loses := c.fault()
			names = append(names, name)
			for _, p := range c.work[first:] {
				p.alone = p.alone || loses
			}
		}
		for _, p := range c.work[first:] {
			c.Eventually(90*time.Second, fmt.Sprintf("round %d (%s): %s is over", round, strings.Join(names, ", "), p.job), func() bool {
				all := c.Allocs(p.job, "")
				return len(all) > 0 && !slices.ContainsFunc(all, func(x *model.AllocListStub) bool {
					return x.ClientStatus != model.AllocClientStatusComplete && x.ClientStatus != model.AllocClientStatusFailed
				})
			})
			verdict, detail := c.judge(p)
			count[verdict]++
			if verdict == "lost" || verdict == "doubled" {
				t.Errorf("round %d (%s): %s: %s", round, strings.Join(names, ", "), verdict, detail)
			} else if verdict == "refused" {
				t.Logf("round %d (%s): %s: %s", round, strings.Join(names, ", "), verdict, detail)
			}
		}
		now := c.sleepers()
		if !slices.Equal(now, before) {
			t.Fatalf("round %d (%s): the tasks were %v and are %v", round, strings.Join(names, ", "), before, now)
		}
	}
	c.Await("raw", model.AllocClientStatusRunning, 12)
	c.Await("isolated", model.AllocClientStatusRunning, 8)
	for _, x := range slices.Concat(raw, isolated) {
		if got, _, err := c.Allocation(c.Context(), x.ID, nil); err != nil || got.TaskStates["t"].Restarts != 0 {
			t.Errorf("alloc %s: %v, %+v", x.ID, err, got)
		}
	}
	c.noGhosts(count)
	t.Logf("%d rounds, faults %v; of %d pieces of batch work: lost %d, doubled %d, ghosts %d, refused %d",
		rounds, c.faults, len(c.work), count["lost"], count["doubled"], count["ghosts"], count["refused"])
}

// noGhosts checks that no task ran after its alloc had ended, and that no task
// survives the stop of its job.
func (c *chaos) noGhosts(count map[string]int) {
	c.T.Helper()
	for _, p := range c.work {
		if verdict, detail := c.judge(p); verdict != "" && verdict != "refused" {
			count["ghosts"]++
			c.T.Errorf("at the end: %s: %s", verdict, detail)
		}
	}
	for _, job := range []string{"raw", "isolated"} {
		c.Must("job", "stop", "-detach", job)
	}
	c.Eventually(30*time.Second, "no task outlives its job", func() bool { return len(c.sleepers()) == 0 })
}
