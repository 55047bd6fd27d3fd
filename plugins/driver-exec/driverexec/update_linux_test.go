// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// limitsInside reads a task's limits as the kernel has them.
const limitsInside = `cd /sys/fs/cgroup
	cat memory/memory.limit_in_bytes 2>/dev/null || cat memory.max
	cat cpu/cpu.shares 2>/dev/null || cat cpu.weight`

func TestNewResourcesHoldAcrossARestartOfThePlugin(t *testing.T) {
	c := newCell(t, nil)
	task := c.task("a", sh("exec sleep 1000"))
	h, _, err := c.StartTask(c.ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		r    driver.Resources
		want string
	}{
		{driver.Resources{CPUMHz: 512, MemoryMB: 128}, "134217728\n512\n"},
		{driver.Resources{CPUMHz: 512, MemoryMB: 32, MemoryMaxMB: 96}, "100663296\n512\n"},
		{driver.Resources{CPUMHz: 512, MemoryMB: 32}, "33554432\n512\n"},
	} {
		if err := c.closer.(driver.Updater).UpdateTask(c.ctx, task.ID, x.r); err != nil {
			t.Fatalf("%+v: %v", x.r, err)
		}
		v2 := strings.Replace(x.want, "\n512\n", "\n20\n", 1)
		if out, _, err := c.exec(task, "/bin/sh", "-c", limitsInside); err != nil || out != x.want && out != v2 {
			t.Errorf("%+v: the kernel has %q, %v", x.r, out, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c.closer = driverexec.NewExec(filepath.Join(c.dir, "state"))
	c.configure(nil)
	if err := c.RecoverTask(c.ctx, h); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.DestroyTask(c.ctx, task.Ref(), true); err != nil {
			t.Error(err)
		}
	}()
	if out, _, err := c.exec(task, "/bin/sh", "-c", limitsInside); err != nil || !strings.HasPrefix(out, "33554432\n") {
		t.Errorf("after a restart of the plugin the kernel has %q, %v", out, err)
	}
}

func TestATaskThatNeedsItsMemoryKeepsIt(t *testing.T) {
	c := newCell(t, nil)
	task := c.task("a", sh(`x=$(head -c 30000000 /dev/zero | tr '\0' x); echo holds ${#x}; while :; do sleep 1; done`))
	task.Resources.MemoryMB = 256
	c.start(task)
	c.eventually("the task has its memory", func() bool { return strings.Contains(c.output(task), "holds 30000000") })
	err := c.closer.(driver.Updater).UpdateTask(c.ctx, task.ID, driver.Resources{CPUMHz: 512, MemoryMB: 8})
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "more than the 8 MiB") {
		t.Errorf("%v", err)
	}
	if s, err := c.InspectTask(c.ctx, task.ID); err != nil || s.State != driver.TaskRunning {
		t.Errorf("%+v, %v", s, err)
	}
	if out, _, err := c.exec(task, "/bin/sh", "-c", limitsInside); err != nil || !strings.HasPrefix(out, "268435456\n") || strings.Contains(out, "512\n") {
		t.Errorf("the kernel has %q, %v; want what was before", out, err)
	}
}

// coresOf is what the kernel lets the process that prints its id first run on.
func coresOf(pid string) string {
	status, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	return ""
}

func twoCores(t *testing.T) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil || !set.IsSet(0) || !set.IsSet(1) {
		t.Skip("the cores 0 and 1 are needed")
	}
}

func TestATaskWithoutCoresLeavesThoseThatOthersHaveReserved(t *testing.T) {
	twoCores(t)
	c := newCell(t, nil)
	task := c.task("a", sh("while :; do sleep 1; done"))
	task.Resources.SharedCores = []int{1}
	c.start(task)
	allowed := func() string {
		out, _, err := c.exec(task, "/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(strings.TrimPrefix(out, "Cpus_allowed_list:"))
	}
	if got := allowed(); got != "1" {
		t.Errorf("it starts on the cores %s", got)
	}
	for _, x := range []struct {
		cores []int
		want  string
	}{{[]int{0}, "0"}, {nil, "0"}, {[]int{0, 1}, "0-1"}} {
		r := task.Resources
		r.SharedCores = x.cores
		if err := c.closer.(driver.Updater).UpdateTask(c.ctx, task.ID, r); err != nil {
			t.Fatalf("%v: %v", x.cores, err)
		}
		if got := allowed(); got != x.want {
			t.Errorf("%v: it runs on the cores %s, not %s", x.cores, got, x.want)
		}
	}
}

func TestAllThreadsOfARawTaskMoveToTheCoresThatAreShared(t *testing.T) {
	twoCores(t)
	cgroups(t) // skips where there are none
	d, task := rawTask(t, map[string]any{"command": "/bin/sh", "args": []any{"-c", "sleep 1000 & echo $! > pids; echo $$ >> pids; wait"}})
	task.Resources.SharedCores = []int{1}
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.DestroyTask(context.Background(), task.Ref(), true) })
	var pids []string
	eventually(t, "the task writes the ids of its processes", func() bool {
		raw, _ := os.ReadFile(filepath.Join(task.TaskDir, "pids"))
		pids = strings.Fields(string(raw))
		return len(pids) == 2
	})
	check := func(want string) {
		t.Helper()
		for _, pid := range pids {
			if got := coresOf(pid); got != want {
				t.Errorf("process %s runs on the cores %s, not %s", pid, got, want)
			}
		}
		var out strings.Builder
		if _, err := d.ExecTask(t.Context(), task.ID, driver.ExecOptions{Command: []string{"grep", "Cpus_allowed_list:", "/proc/self/status"}}, driver.ExecStream{Stdout: &out}); err != nil || strings.Fields(out.String())[1] != want {
			t.Errorf("a command beside it runs on the cores %q, not %s: %v", out.String(), want, err)
		}
	}
	check("1")
	for _, x := range []struct {
		r    driver.Resources
		want string
	}{
		{driver.Resources{SharedCores: []int{0}}, "0"}, {driver.Resources{}, "0"},
		{driver.Resources{Cores: []int{1}, SharedCores: []int{1}}, "0"}, {driver.Resources{SharedCores: []int{0, 1}}, "0-1"},
	} {
		if err := any(d).(driver.Updater).UpdateTask(t.Context(), task.ID, x.r); err != nil {
			t.Fatal(err)
		}
		check(x.want)
	}
}
