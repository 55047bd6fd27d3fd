// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// forever is a script that forks without end, also into sessions of their own. Its processes
// are found by the number.
func forever(number int) string {
	return fmt.Sprintf("while :; do sleep %[1]d & setsid sleep %[1]d & (setsid sh -c 'sleep %[1]d; :' &); sleep 0.05; done", number)
}

func needUnified(t *testing.T) {
	t.Helper()
	groups, err := cgroup.FindCgroups()
	if err != nil || groups.Unified == "" {
		t.Skipf("commands have no cgroup here: %v", err)
	}
}

func TestHostileACommandThatForksWithoutEndIsGoneWhenItsTimeIsOver(t *testing.T) {
	needUnified(t)
	eachOf(t, func(t *testing.T, c *cell, _ func(*driver.TaskConfig) string) {
		number := 700000 + os.Getpid()
		left := func() int { return strings.Count(commandLines(t), fmt.Sprintf("sleep\x00%d\x00", number)) }
		task := c.task("web", sh("exec sleep 1000"))
		c.start(task)
		for _, tty := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(c.ctx, time.Second)
			_, err := c.ExecTask(ctx, task.ID, driver.ExecOptions{Command: []string{"/bin/sh", "-c", forever(number)}, TTY: tty}, driver.ExecStream{})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("terminal %v: it ended with %v", tty, err)
			}
			c.eventually("its processes are gone", func() bool { return left() == 0 })
		}
		if out, r, err := c.exec(task, "/bin/echo", "here"); err != nil || !r.Successful() || out != "here\n" {
			t.Errorf("another command in the task: %q, %+v, %v", out, r, err)
		}
	})
}

func TestWhatACommandLeavesBehindEndsWithItsTask(t *testing.T) {
	needUnified(t)
	eachOf(t, func(t *testing.T, c *cell, _ func(*driver.TaskConfig) string) {
		number := 600000 + os.Getpid()
		left := func() int { return strings.Count(commandLines(t), fmt.Sprintf("sleep\x00%d\x00", number)) }
		task := c.task("web", sh("exec sleep 1000"))
		c.start(task)
		if _, r, err := c.exec(task, "/bin/sh", "-c", fmt.Sprintf("setsid sleep %d >/dev/null 2>&1 &", number)); err != nil || !r.Successful() {
			t.Fatal(r, err)
		}
		c.eventually("what it left behind runs", func() bool { return left() == 1 })
		if err := c.StopTask(c.ctx, task.ID, 10*time.Second, ""); err != nil {
			t.Fatal(err)
		}
		c.eventually("it is gone", func() bool { return left() == 0 })
	})
}
