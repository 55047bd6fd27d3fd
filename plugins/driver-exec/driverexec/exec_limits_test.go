// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestATaskThatUsesTooMuchMemoryIsReportedAsSuch(t *testing.T) {
	c := newCell(t, nil)
	const hog = `x=$(head -c 200000000 /dev/zero | tr '\0' a); echo survived`
	for name, x := range map[string]struct {
		script string
		says   driver.ExitResult
	}{
		"hog":       {hog, driver.ExitResult{ExitCode: 137, Signal: 9, OOMKilled: true}},
		"its shell": {"sh -c '" + strings.ReplaceAll(hog, "'", `'"'"'`) + "'; exit $?", driver.ExitResult{ExitCode: 137, OOMKilled: true}},
		"survivor":  {"sh -c '" + strings.ReplaceAll(hog, "'", `'"'"'`) + "'; exit 3", driver.ExitResult{ExitCode: 3}},
		"suicide":   {"kill -9 $$", driver.ExitResult{ExitCode: 137, Signal: 9}},
	} {
		task := c.task(strings.ReplaceAll(name, " ", "-"), sh(x.script))
		task.Resources.MemoryMB = 16
		if out, r := c.run(task); r != x.says || strings.Contains(out, "survived") {
			t.Errorf("%s: %+v, %q", name, r, out)
		}
	}
}

func TestTheUserIsToldOfProcessesThatWereKilledWhileTheTaskGoesOn(t *testing.T) {
	t.Parallel() // it waits for a check that happens every 5 s
	c := newCell(t, nil)
	task := c.task("a", sh(`sh -c "x=\$(head -c 200000000 /dev/zero | tr '\0' a)"; echo up; exec sleep 1000`))
	task.Resources.MemoryMB = 16
	events, err := c.TaskEvents(c.ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.start(task)
	c.start(c.sleeper("well"))
	select {
	case e := <-events:
		if e.TaskID != task.ID || !strings.Contains(e.Message, "OOM Killed") || e.Annotations["oom_killed_processes"] == "" {
			t.Errorf("event %+v", e)
		}
	case <-c.ctx.Done():
		t.Error("nothing is told")
	}
	if s, err := c.InspectTask(c.ctx, task.ID); err != nil || s.State != driver.TaskRunning {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestResourcesBecomeLimitsOfTheTasksCgroup(t *testing.T) {
	c := newCell(t, nil)
	task := c.task("a", sh(`cd /sys/fs/cgroup
		cat memory/memory.limit_in_bytes 2>/dev/null || cat memory.max
		cat memory/memory.soft_limit_in_bytes 2>/dev/null || cat memory.low
		cat cpu/cpu.shares 2>/dev/null || cat cpu.weight
		grep Cpus_allowed_list /proc/self/status`))
	task.Resources = driver.Resources{CPUMHz: 512, MemoryMB: 32, MemoryMaxMB: 64, Cores: []int{0}}
	out, r := c.run(task)
	want := "67108864\n33554432\n512\nCpus_allowed_list:\t0\n"
	if v2 := strings.Replace(want, "\n512\n", "\n20\n", 1); !r.Successful() || out != want && out != v2 {
		t.Fatalf("%+v, %q", r, out)
	}
}

// The task first uses more than memory and less than memory_max, and then more than
// memory_max.
func TestMemoryMaxIsTheLimitAndMemoryWhatTheTaskKeeps(t *testing.T) {
	c := newCell(t, nil)
	for mb, survives := range map[int]bool{24: true, 60: false} {
		task := c.task(fmt.Sprintf("uses-%d", mb), sh(fmt.Sprintf("head -c %d000000 /dev/zero > /dev/shm/x && echo survived", mb)))
		task.Resources.MemoryMB, task.Resources.MemoryMaxMB = 12, 40
		if out, r := c.run(task); strings.Contains(out, "survived") != survives || r.OOMKilled == survives {
			t.Errorf("%d MB: %+v, %q", mb, r, out)
		}
	}
}

// The test checks the cores from inside the tasks, and each task tries to use
// others.
func TestTasksWithCoresOfTheirOwnRunOnThemOnly(t *testing.T) {
	c := newCell(t, nil)
	sets := [][]int{{0}}
	if runtime.NumCPU() > 1 {
		sets = append(sets, []int{1}, []int{0, 1})
	}
	for i, cores := range sets {
		task := c.task(fmt.Sprintf("t%d", i), sh(`taskset -p ffff $$ >/dev/null 2>&1; grep Cpus_allowed_list /proc/self/status; nproc`))
		task.Resources.Cores = cores
		want := "0\n1\n"
		switch {
		case len(cores) == 2:
			want = "0-1\n2\n"
		case cores[0] == 1:
			want = "1\n1\n"
		}
		if out, r := c.run(task); !r.Successful() || out != "Cpus_allowed_list:\t"+want {
			t.Errorf("cores %v: %+v, %q", cores, r, out)
		}
	}
	free := c.task("free", sh("grep Cpus_allowed_list /proc/self/status"))
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if out, r := c.run(free); !r.Successful() || status(out, "Cpus_allowed_list") != status(string(own), "Cpus_allowed_list") {
		t.Errorf("a task without cores of its own: %+v, %q", r, out)
	}
	none := c.task("none", sh("true"))
	none.Resources.Cores = []int{4000}
	if _, _, err := c.StartTask(c.ctx, none); err == nil || !strings.Contains(err.Error(), strconv.Itoa(4000)) {
		t.Errorf("a core that does not exist: class %s, %v", errdefs.ClassOf(err), err)
	}
}
