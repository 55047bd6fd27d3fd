// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/internal/testkit/process"
	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	"github.com/drover-project/drover/plugins/internal/supervised"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// freeze stops a process and waits until none of its threads runs.
func (c *cell) freeze(pid int) {
	c.t.Helper()
	if err := process.Stop(pid); err != nil {
		c.t.Fatal(err)
	}
}

// killAfter kills the supervisor or its keeper after a pause. It returns a function
// that waits for this.
func (c *cell) killAfter(sup *supervisor.Client, keeper bool, pause time.Duration) (killed func()) {
	c.t.Helper()
	h, err := sup.Hello(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	done := make(chan error, 1)
	pid := h.PID
	if keeper {
		pid = h.Keeper
	}
	time.AfterFunc(pause, func() { done <- syscall.Kill(pid, syscall.SIGKILL) })
	return func() {
		if err := <-done; err != nil {
			c.t.Fatal(err)
		}
	}
}

// eachOf runs a test with exec and with raw_exec. alloc returns the path of the
// alloc's shared directory as a task sees it.
func eachOf(t *testing.T, test func(t *testing.T, c *cell, alloc func(*driver.TaskConfig) string)) {
	t.Run("exec", func(t *testing.T) {
		c := newCellOf(t, map[string]any{}, func(dir string) closer { return driverexec.NewExec(dir) })
		test(t, c, func(*driver.TaskConfig) string { return "/alloc" })
	})
	t.Run("raw_exec", func(t *testing.T) {
		c := newCellOf(t, map[string]any{"enabled": true}, func(dir string) closer { return driverexec.NewRawExec(dir) })
		test(t, c, func(task *driver.TaskConfig) string { return filepath.Join(task.AllocDir, "alloc") })
	})
}

func TestHostileNoExitCodeIsLostWhenTheSupervisorIsKilledWhileTasksEnd(t *testing.T) {
	const rounds, tasks = 8, 24
	eachOf(t, func(t *testing.T, c *cell, alloc func(*driver.TaskConfig) string) {
		sup, _ := c.supervised()
		wrong := 0
		for round := range rounds {
			var started []*driver.TaskConfig
			for i := range tasks {
				task := c.task(fmt.Sprintf("r%d-%d", round, i), nil)
				task.DriverConfig = marshal(t, sh(fmt.Sprintf("while [ ! -e %s/go%d ]; do sleep 0.01; done; exit %d", alloc(task), round, i+1)))
				c.start(task)
				started = append(started, task)
			}
			killed := c.killAfter(sup, round%3 == 2, time.Duration(rand.IntN(60))*time.Millisecond)
			for _, task := range started {
				if err := os.WriteFile(filepath.Join(task.AllocDir, "alloc", fmt.Sprintf("go%d", round)), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			killed()
			for i, task := range started {
				r, err := c.WaitTask(c.ctx, task.ID)
				if err != nil {
					t.Fatal(err)
				}
				if r.ExitCode != i+1 || r.Signal != 0 || r.Err != "" {
					wrong++
					t.Errorf("round %d: the task that ended with %d is said to have ended with %+v", round, i+1, r)
				}
			}
		}
		t.Logf("%d kills, %d ends, %d wrong", rounds, rounds*tasks, wrong)
	})
}

func TestHostileATaskRunsOnceWhenTheSupervisorIsKilledWhileItStarts(t *testing.T) {
	const rounds, tasks = 12, 12
	eachOf(t, func(t *testing.T, c *cell, alloc func(*driver.TaskConfig) string) {
		sup, _ := c.supervised()
		runs := map[int]int{}
		for round := range rounds {
			var all []*driver.TaskConfig
			for i := range tasks {
				task := c.task(fmt.Sprintf("r%d-%d", round, i), nil)
				task.DriverConfig = marshal(t, sh("echo ran >>"+alloc(task)+"/ran; exit 5"))
				all = append(all, task)
			}
			killed := c.killAfter(sup, round%3 == 2, time.Duration(rand.IntN(40_000))*time.Microsecond)
			started := make(chan error, tasks)
			for _, task := range all {
				go func() {
					_, _, err := c.StartTask(c.ctx, task)
					started <- err
				}()
			}
			for range all {
				if err := <-started; err != nil {
					t.Errorf("a start while the supervisor is killed: %v", err)
				}
			}
			killed()
			for _, task := range all {
				r, err := c.WaitTask(c.ctx, task.ID)
				if err != nil || r.ExitCode != 5 {
					t.Errorf("%s ended with %+v, %v", task.ID, r, err)
				}
				ran, err := os.ReadFile(filepath.Join(task.AllocDir, "alloc", "ran"))
				if err != nil {
					t.Errorf("%s was started: %v", task.ID, err)
				}
				runs[strings.Count(string(ran), "\n")]++
				if err := c.DestroyTask(c.ctx, task.Ref(), true); err != nil {
					t.Error(err)
				}
			}
		}
		if runs[1] != rounds*tasks {
			t.Errorf("of %d tasks, by how often they ran: %v", rounds*tasks, runs)
		}
	})
}

func TestHostileATaskThatIsDestroyedWhileItIsStartedNeverComesUp(t *testing.T) {
	c := newCell(t, nil)
	c.start(c.task("first", sh("sleep 600"))) // starts the supervisor and keeps it running
	sup, h := c.supervised()
	for i := range 3 {
		task := c.task(fmt.Sprint("gone", i), sh("sleep 600"))
		c.freeze(h.PID)
		starting, started, destroyed := make(chan bool), make(chan error, 1), make(chan error, 1)
		go func() {
			close(starting)
			_, _, err := c.StartTask(c.ctx, task)
			started <- err
		}()
		<-starting
		// The start has reached the supervisor once a later request is not answered.
		after, cancel := context.WithTimeout(c.ctx, time.Second)
		_, err := c.InspectTask(after, "first/web/1")
		cancel()
		if err == nil {
			t.Fatal("a stopped supervisor answered")
		}
		go func() { destroyed <- c.DestroyTask(c.ctx, task.Ref(), true) }()
		time.AfterFunc(20*time.Millisecond, func() { _ = syscall.Kill(h.PID, syscall.SIGCONT) })
		serr := <-started
		if err := <-destroyed; err != nil {
			t.Fatal(err)
		}
		list, err := sup.List(c.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.ID == task.ID {
				t.Errorf("the start said %v, and after it was destroyed the task is there: %+v", serr, s)
				_ = sup.Destroy(c.ctx, s.ID, true) // clean up
			}
		}
	}
}

func TestAStartThatIsUnderWayIsGivenUpBeforeItsTaskIsDestroyed(t *testing.T) {
	c := newCell(t, nil)
	c.start(c.task("first", sh("sleep 600"))) // starts the supervisor
	tasks := supervised.New("driver-exec", filepath.Join(c.dir, "state"))
	defer tasks.Close()
	const id = "late/web/1"
	start, ended, err := tasks.Starting(c.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := tasks.Starting(c.ctx, id); !errdefs.IsAlreadyExists(err) {
		t.Errorf("a second start beside it: %v", err)
	}
	if err := tasks.DestroyTask(c.ctx, driver.TaskRef{ID: id}, false); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("destroyed without force while it starts: %v", err)
	}
	destroyed := make(chan error, 1)
	go func() { destroyed <- tasks.DestroyTask(c.ctx, driver.TaskRef{ID: id}, true) }()
	<-start.Done()
	if _, err := tasks.Start(start, supervisor.Spec{ID: id, Path: "/bin/sleep", Args: []string{"sleep", "600"}}); err == nil {
		t.Error("a start that was given up was carried out")
	}
	ended()
	if err := <-destroyed; err != nil {
		t.Fatal(err)
	}
	if list, err := tasks.ListTasks(c.ctx); err != nil || len(list) != 1 {
		t.Errorf("beside the first there is %v, %v", list, err)
	}
	if _, again, err := tasks.Starting(c.ctx, id); err != nil {
		t.Errorf("after it was destroyed it cannot be started: %v", err)
	} else {
		again()
	}
}

func TestATaskThatNoProcessWasToldOfIsListedAndCanBeDestroyed(t *testing.T) {
	c := newCell(t, nil)
	state := filepath.Join(c.dir, "state")
	before := driverexec.NewExec(state) // represents a process that is gone
	ids, err := before.ListTasks(c.ctx)
	if err != nil || len(ids) != 0 {
		t.Errorf("before there is a task: %v, %v", ids, err)
	}
	if _, err := os.Stat(filepath.Join(state, "socket")); !os.IsNotExist(err) {
		t.Errorf("a supervisor was started to say that there are no tasks: %v", err)
	}
	info := before.Info()
	full, err := info.ConfigSchema.Apply(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := before.SetConfig(c.ctx, marshal(t, full)); err != nil {
		t.Fatal(err)
	}
	task := c.task("ghost", sh("sleep 600"))
	if _, _, err := before.StartTask(c.ctx, task); err != nil {
		t.Fatal(err)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	if ids, err := c.closer.(driver.Lister).ListTasks(c.ctx); err != nil || len(ids) != 1 || ids[0].TaskID != task.ID {
		t.Errorf("the next process lists %v, %v", ids, err)
	}
	list, err := c.closer.(driver.Lister).ListTasks(c.ctx)
	if err == nil {
		err = c.RecoverTask(c.ctx, list[0])
	}
	if err != nil {
		t.Errorf("it is not taken over: %v", err)
	}
	if err := c.DestroyTask(c.ctx, task.Ref(), true); err != nil {
		t.Fatal(err)
	}
	if ids, err := c.closer.(driver.Lister).ListTasks(c.ctx); err != nil || len(ids) != 0 {
		t.Errorf("after it was destroyed: %v, %v", ids, err)
	}
}

func TestHostileADriverWhoseSupervisorAndKeeperHangIsUnhealthyUntilTheyAnswer(t *testing.T) {
	t.Setenv("DROVER_SUPERVISOR_HANG", "300ms")
	t.Run("exec", func(t *testing.T) {
		c := newCell(t, nil)
		bothHang(t, c, c.task("a", sh("sleep 600")))
	})
	t.Run("java", func(t *testing.T) {
		c := newJavaCell(t, nil)
		bothHang(t, c, c.java("a", map[string]any{"class": "Probe", "class_path": "local", "args": []any{"serve"}}))
	})
}

func bothHang(t *testing.T, c *cell, task *driver.TaskConfig) {
	t.Helper()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	prints, err := c.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for f := range prints { // java is undetected until its JVM was asked
		if f.Health == driver.HealthHealthy {
			break
		}
	}
	c.start(task)
	_, h := c.supervised()
	both := func(s syscall.Signal) {
		for _, pid := range []int{h.Keeper, h.PID} {
			if err := syscall.Kill(pid, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	both(syscall.SIGSTOP)
	if f := <-prints; f.Health != driver.HealthUnhealthy || !strings.Contains(f.HealthDescription, "supervisor.log") {
		t.Errorf("while they hang: %+v", f)
	}
	both(syscall.SIGCONT)
	if f := <-prints; f.Health != driver.HealthHealthy {
		t.Errorf("when they answer: %+v", f)
	}
	if s, err := c.InspectTask(c.ctx, task.ID); err != nil || s.State != driver.TaskRunning {
		t.Errorf("the task: %+v, %v", s, err)
	}
}
