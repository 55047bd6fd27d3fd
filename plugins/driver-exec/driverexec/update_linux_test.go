// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec_test

import (
	"path/filepath"
	"strings"
	"testing"

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
