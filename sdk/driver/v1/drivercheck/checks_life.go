// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

var lifeChecks = []Check{
	{"exit-code", "a task's exit code comes back", nil, checkExitCode},
	{"start-context", "the context of a start bounds the start and not the task", nil, checkStartContext},
	{"wait", "a wait ends with its context and can be repeated", nil, checkWait},
	{"wait-alone", "a task ends with its main process, also while a child of it holds its output open", nil, checkWaitAlone},
	{"inspect", "inspect tells running from exited", nil, checkInspect},
	{"many-tasks", "calls for different tasks come at the same time", nil, checkMany},
	{"double-start", "starting a known task again is refused and changes nothing", nil, checkDoubleStart},
	{"bad-config", "a config that cannot start is refused, not retried, and leaves nothing", nil, checkBadStart},
	{"unknown-task", "an unknown task is not found", nil, checkUnknown},
	{"destroy", "destroy is idempotent, refuses a running task without force, and frees the id", nil, checkDestroy},
	{"environment", "the environment is the task's own", nil, checkEnv},
}

func checkExitCode(b *bench) {
	for _, code := range []int{0, 7} {
		config, _ := b.start(fmt.Sprintf("exit %d", code))
		if r := b.wait(config.ID); r.ExitCode != code || r.Signal != 0 || r.Successful() != (code == 0) {
			b.t.Errorf("exit %d came back as %+v", code, r)
		}
	}
}

func checkStartContext(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	config := b.task(forever)
	b.startConfig(ctx, config)
	cancel()
	short, done := context.WithTimeout(b.ctx, 200*time.Millisecond)
	defer done()
	// Give the task time to be ended, wrongly, by the end of the start's context.
	if r, err := b.d.WaitTask(short, config.ID); err == nil {
		b.t.Errorf("the task ended with the context of its start: %+v", r)
	}
	b.running(config.ID, "after the context of its start has ended")
}

func checkWait(b *bench) {
	config, _ := b.start(forever)
	ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
	defer cancel()
	_, err := b.d.WaitTask(ctx, config.ID)
	b.refused("a wait whose context ended", err, errdefs.DeadlineExceeded)
	const waiters = 3
	waited := make(chan driver.ExitResult, waiters)
	for range waiters {
		go func() {
			r, err := b.d.WaitTask(b.ctx, config.ID)
			if err != nil {
				b.t.Errorf("one of several waits: %v", err)
			}
			waited <- r
		}()
	}
	if err := b.d.StopTask(b.ctx, config.ID, 5*time.Second, ""); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	first := b.wait(config.ID)
	for range waiters {
		if r := <-waited; r != first {
			b.t.Errorf("one of several waits said %+v, another %+v", r, first)
		}
	}
	if second := b.wait(config.ID); second != first {
		b.t.Errorf("the second wait said %+v, the first %+v", second, first)
	}
	if err := b.d.StopTask(b.ctx, config.ID, time.Second, ""); err != nil {
		b.t.Errorf("stopping a task that has ended: %v", err)
	}
}

// aWhile is far longer than a call takes on a busy machine, if it waits for nothing that does
// not come.
const aWhile = 30 * time.Second

func checkWaitAlone(b *bench) {
	config, _ := b.start(`(cd local 2>/dev/null || cd "$NOMAD_TASK_DIR"; until [ -e over ]; do sleep 0.05; done) & exit 7`)
	ctx, cancel := context.WithTimeout(b.ctx, aWhile)
	defer cancel()
	r, err := b.d.WaitTask(ctx, config.ID)
	if err != nil || r.ExitCode != 7 {
		b.t.Errorf("the task's main process has ended with exit code 7, but for %s WaitTask says %+v, %v; is it waiting for the end of the task's output?", aWhile, r, err)
	}
	if err := os.WriteFile(filepath.Join(config.TaskDir, "local", "over"), nil, 0o600); err != nil {
		b.t.Errorf("end the child of the task: %v", err)
	}
}

// clockSlack is how far the clock of a file system or daemon may differ from ours.
const clockSlack = 2 * time.Second

func checkInspect(b *bench) {
	running, _ := b.start(forever)
	status, err := b.d.InspectTask(b.ctx, running.ID)
	if err != nil || status.State != driver.TaskRunning || status.Exit != nil || !status.ExitedAt.IsZero() {
		b.t.Errorf("running: %+v, %v", status, err)
	}
	config, _ := b.start("read x; exit 4")
	before := time.Now()
	b.wait(config.ID)
	status, err = b.d.InspectTask(b.ctx, config.ID)
	if err != nil || status.ID != config.ID || status.State != driver.TaskExited || status.Exit == nil {
		b.t.Fatalf("exited: %+v, %v", status, err)
	}
	if status.StartedAt.IsZero() || status.StartedAt.After(before.Add(clockSlack)) {
		b.t.Errorf("started at %s", status.StartedAt)
	}
	if status.ExitedAt.Before(status.StartedAt.Add(-clockSlack)) || time.Since(status.ExitedAt) < -clockSlack {
		b.t.Errorf("started at %s and ended at %s", status.StartedAt, status.ExitedAt)
	}
	if status.Exit.ExitCode != 4 {
		b.t.Errorf("inspect says that it ended with %+v, want exit code 4", *status.Exit)
	}
}

// many is the number of tasks that are started concurrently: enough to reveal a
// missing lock, few enough for drivers whose tasks are large.
const many = 5

func checkMany(b *bench) {
	configs := make([]*driver.TaskConfig, many)
	for i := range configs {
		configs[i] = b.task(fmt.Sprintf("exit %d", 10+i))
		b.started = append(b.started, configs[i].Ref())
	}
	var wg sync.WaitGroup
	for i, c := range configs {
		wg.Go(func() {
			if _, _, err := b.d.StartTask(b.ctx, c); err != nil {
				b.t.Errorf("StartTask beside others: %v", err)
				return
			}
			if r, err := b.d.WaitTask(b.ctx, c.ID); err != nil || r.ExitCode != 10+i {
				b.t.Errorf("task %d of %d beside others: %+v, %v; want exit code %d", i, many, r, err, 10+i)
			}
		})
	}
	wg.Wait()
}

func checkDoubleStart(b *bench) {
	config, _ := b.start(forever)
	_, _, err := b.d.StartTask(b.ctx, config)
	b.refused("a second start", err, errdefs.AlreadyExists)
	b.running(config.ID, "after a second start")
}

func checkBadStart(b *bench) {
	config := b.task(forever)
	config.DriverConfig = []byte(`{"no_driver_has_this": 1}`)
	_, _, err := b.d.StartTask(b.ctx, config)
	b.refused("a config that no driver has", err, errdefs.InvalidArgument)
	if errdefs.IsRetryable(err) && !b.subject.Foreign {
		b.t.Errorf("the refusal of a config that can never start counts as retryable: %v", err)
	}
	_, err = b.d.InspectTask(b.ctx, config.ID)
	b.refused("inspecting the task that was refused", err, errdefs.NotFound)
}

func checkUnknown(b *bench) {
	const id = "drivertest-nobody"
	_, err := b.d.WaitTask(b.ctx, id)
	b.refused("WaitTask", err, errdefs.NotFound)
	_, err = b.d.InspectTask(b.ctx, id)
	b.refused("InspectTask", err, errdefs.NotFound)
	b.refused("StopTask", b.d.StopTask(b.ctx, id, time.Second, ""), errdefs.NotFound)
	caps := b.d.Info().Capabilities
	if caps.SendSignals {
		b.refused("SignalTask", b.d.SignalTask(b.ctx, id, "SIGTERM"), errdefs.NotFound)
	}
	if caps.Exec {
		_, err = b.d.ExecTask(b.ctx, id, driver.ExecOptions{Command: []string{"true"}}, driver.ExecStream{})
		b.refused("ExecTask", err, errdefs.NotFound)
	}
	if err := b.d.DestroyTask(b.ctx, driver.TaskRef{ID: id}, false); err != nil {
		b.t.Errorf("DestroyTask of an unknown task is not an error: %v", err)
	}
}

func checkDestroy(b *bench) {
	config, _ := b.start(forever)
	b.refused("destroying a running task without force", b.d.DestroyTask(b.ctx, config.Ref(), false), errdefs.FailedPrecondition)
	for range 2 {
		if err := b.d.DestroyTask(b.ctx, config.Ref(), true); err != nil {
			b.t.Errorf("DestroyTask with force: %v", err)
		}
	}
	_, err := b.d.InspectTask(b.ctx, config.ID)
	b.refused("inspecting a destroyed task", err, errdefs.NotFound)
	// The ID may be used again, as after a failed start.
	if _, _, err := b.d.StartTask(b.ctx, config); err != nil {
		b.t.Errorf("starting a destroyed task: %v", err)
	}
}

func checkEnv(b *bench) {
	config, _ := b.start(`[ "$DRIVERTEST" = yes ] || exit 1; [ -z "$` + SecretVariable + `" ] || exit 2`)
	switch r := b.wait(config.ID); r.ExitCode {
	case 0:
	case 1:
		b.t.Errorf("a variable of TaskConfig.Env is missing in the task")
	case 2:
		b.t.Errorf("the plugin's own environment reaches the task")
	default:
		b.t.Errorf("result %+v", r)
	}
}
