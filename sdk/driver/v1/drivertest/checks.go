// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// check is one thing that the contract asks for.
type check struct {
	name string
	// needs reports whether the driver claims to be able to do it; nil: all must.
	needs func(driver.Capabilities) bool
	run   func(*bench)
}

func all(t *testing.T, opts Options, connect connect) {
	for _, c := range append(append([]check{}, checks...), execChecks...) {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), opts.Timeout)
			defer cancel()
			d := connect(t, opts)
			if c.needs != nil && !c.needs(d.Info().Capabilities) {
				t.Skip("the driver says that it cannot do this")
			}
			configure(t, ctx, d, opts.Config)
			b := &bench{t: t, ctx: ctx, opts: opts, d: d, connect: connect}
			defer b.end()
			c.run(b)
		})
	}
}

func canSignal(c driver.Capabilities) bool { return c.SendSignals }

func canLog(c driver.Capabilities) bool { return !c.DisableLogCollection }

// onMachine is false where a task is process 1 of its own world, to which the
// kernel applies no default action of a signal.
func onMachine(c driver.Capabilities) bool { return c.FSIsolation == driver.FSIsolationNone }

var checks = []check{
	{"info is complete and its schemas are sound", nil, checkInfo},
	{"the first fingerprint comes at once and the stream ends with its context", nil, checkFingerprint},
	{"a task's exit code comes back", nil, checkExitCode},
	{"a wait ends with its context and can be repeated", nil, checkWait},
	{"a task that a signal ends reports it", canSignal, checkSignal},
	{"a stop that is ignored escalates to a kill", nil, checkKill},
	{"a stop ends the processes that a task started", nil, checkStopTree},
	{"starting a known task again is refused", nil, checkDoubleStart},
	{"a config that cannot start is refused and leaves nothing", nil, checkBadStart},
	{"an unknown task is not found", nil, checkUnknown},
	{"destroy is idempotent and refuses a running task without force", nil, checkDestroy},
	{"inspect tells running from exited", nil, checkInspect},
	{"a running task is recovered after the plugin died", nil, checkRecoverRunning},
	{"a task that ended while the plugin was dead is recovered with its exit code", nil, checkRecoverEnded},
	{"a foreign handle is refused", nil, checkForeignHandle},
	{"stats come for all running tasks and end with their context", nil, checkStats},
	{"events end with their context", nil, checkEvents},
	{"output reaches the log files", canLog, checkLogs},
	{"log files rotate", canLog, checkRotation},
	{"the environment is the task's own", nil, checkEnv},
	{"no signal is ignored in a task because its plugin ignores it", onMachine, checkSignalDefaults},
}

func checkInfo(b *bench) {
	info := b.d.Info()
	if info.Name == "" || info.Capabilities.FSIsolation == "" {
		b.t.Errorf("name or file system isolation is missing: %+v", info)
	}
	if err := info.ConfigSchema.Check(); err != nil {
		b.t.Errorf("config schema: %v", err)
	}
	if err := info.TaskConfigSchema.Check(); err != nil {
		b.t.Errorf("task config schema: %v", err)
	}
}

func checkFingerprint(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	prints, err := b.d.Fingerprint(ctx)
	if err != nil {
		b.t.Fatalf("Fingerprint: %v", err)
	}
	f, ok := <-prints
	if !ok || f.Health == "" {
		b.t.Errorf("first fingerprint %+v, open %v", f, ok)
	}
	cancel()
	drained(b, prints)
}

// drained waits until the channel is closed.
func drained[T any](b *bench, ch <-chan T) {
	b.t.Helper()
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-b.ctx.Done():
			b.t.Fatal("the channel is still open after its context ended")
		}
	}
}

func checkExitCode(b *bench) {
	for _, code := range []int{0, 7} {
		config, _ := b.start(fmt.Sprintf("exit %d", code))
		if r := b.wait(config.ID); r.ExitCode != code || r.Signal != 0 || r.Successful() != (code == 0) {
			b.t.Errorf("exit %d came back as %+v", code, r)
		}
	}
}

func checkWait(b *bench) {
	config, _ := b.start("sleep 600")
	ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := b.d.WaitTask(ctx, config.ID); !errdefs.IsDeadlineExceeded(err) {
		b.t.Errorf("a wait whose context ended: %v", err)
	}
	if err := b.d.StopTask(b.ctx, config.ID, 5*time.Second, ""); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	first := b.wait(config.ID)
	if second := b.wait(config.ID); second != first {
		b.t.Errorf("the second wait said %+v, the first %+v", second, first)
	}
	if err := b.d.StopTask(b.ctx, config.ID, time.Second, ""); err != nil {
		b.t.Errorf("stopping a task that has ended: %v", err)
	}
}

func checkSignal(b *bench) {
	config, _ := b.start("echo up; exec sleep 600")
	b.up(config)
	if err := b.d.SignalTask(b.ctx, config.ID, "SIGNONSENSE"); !errdefs.IsInvalidArgument(err) {
		b.t.Errorf("an unknown signal: %v", err)
	}
	if err := b.d.SignalTask(b.ctx, config.ID, "SIGINT"); err != nil {
		b.t.Fatalf("SignalTask: %v", err)
	}
	if r := b.wait(config.ID); r.Signal != 2 || r.ExitCode != 130 {
		b.t.Errorf("result %+v, want signal 2 and exit code 130", r)
	}
	if err := b.d.SignalTask(b.ctx, config.ID, "SIGINT"); !errdefs.IsFailedPrecondition(err) {
		b.t.Errorf("signalling a task that has ended: %v", err)
	}
}

// up waits until a task has printed up; where there are no logs it is not awaited.
func (b *bench) up(config *driver.TaskConfig) {
	b.t.Helper()
	if canLog(b.d.Info().Capabilities) {
		b.eventually("the task prints up", printed(config.Logs.StdoutPath+".0", "up"))
	}
}

func checkKill(b *bench) {
	config, _ := b.start("trap '' TERM INT; echo up; while :; do sleep 0.05; done")
	b.up(config)
	begin := time.Now()
	if err := b.d.StopTask(b.ctx, config.ID, 200*time.Millisecond, "SIGTERM"); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	if took := time.Since(begin); took < 200*time.Millisecond {
		b.t.Errorf("killed after %s, before its timeout", took)
	}
	if r := b.wait(config.ID); r.Signal != 9 {
		b.t.Errorf("result %+v, want signal 9", r)
	}
}

// checkStopTree has the task start a child that ignores the signal and writes a
// file for as long as it lives.
func checkStopTree(b *bench) {
	config, _ := b.start("cd local 2>/dev/null || cd \"$NOMAD_TASK_DIR\"; (trap '' TERM; while :; do echo x >> beat; sleep 0.02; done) & echo up; wait")
	b.up(config)
	size := func() int64 {
		info, err := os.Stat(filepath.Join(config.TaskDir, "local", "beat"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	b.eventually("the child writes to the task's local directory", func() bool { return size() > 0 })
	if err := b.d.StopTask(b.ctx, config.ID, 200*time.Millisecond, "SIGTERM"); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	b.wait(config.ID)
	// A kill may reach the child just after the stop, so it gets the check's time
	// to fall silent for ten of its periods.
	b.eventually("the child of the stopped task is gone", func() bool {
		before := size()
		<-time.After(200 * time.Millisecond)
		return size() == before
	})
}

func checkDoubleStart(b *bench) {
	config, _ := b.start("sleep 600")
	if _, _, err := b.d.StartTask(b.ctx, config); !errdefs.IsAlreadyExists(err) {
		b.t.Errorf("a second start: class %s, %v", errdefs.ClassOf(err), err)
	}
	status, err := b.d.InspectTask(b.ctx, config.ID)
	if err != nil || status.State != driver.TaskRunning {
		b.t.Errorf("after it the task is %+v, %v", status, err)
	}
}

func checkBadStart(b *bench) {
	config := b.task("exit 0")
	config.DriverConfig = []byte(`{"no_driver_has_this": 1}`)
	_, _, err := b.d.StartTask(b.ctx, config)
	if !errdefs.IsInvalidArgument(err) || errdefs.IsRetryable(err) {
		b.t.Errorf("class %s, %v; want InvalidArgument, not retryable", errdefs.ClassOf(err), err)
	}
	if _, err := b.d.InspectTask(b.ctx, config.ID); !errdefs.IsNotFound(err) {
		b.t.Errorf("something is left: %v", err)
	}
}

func checkUnknown(b *bench) {
	const id = "drivertest-nobody"
	_, waitErr := b.d.WaitTask(b.ctx, id)
	_, inspectErr := b.d.InspectTask(b.ctx, id)
	errs := map[string]error{
		"WaitTask": waitErr, "InspectTask": inspectErr, "StopTask": b.d.StopTask(b.ctx, id, time.Second, ""),
	}
	caps := b.d.Info().Capabilities
	if caps.SendSignals {
		errs["SignalTask"] = b.d.SignalTask(b.ctx, id, "SIGTERM")
	}
	if caps.Exec {
		_, errs["ExecTask"] = b.d.ExecTask(b.ctx, id, driver.ExecOptions{Command: []string{"true"}}, driver.ExecStream{})
	}
	for name, err := range errs {
		if !errdefs.IsNotFound(err) {
			b.t.Errorf("%s: class %s, %v", name, errdefs.ClassOf(err), err)
		}
	}
}

func checkDestroy(b *bench) {
	config, _ := b.start("sleep 600")
	if err := b.d.DestroyTask(b.ctx, config.ID, false); !errdefs.IsFailedPrecondition(err) {
		b.t.Errorf("destroying a running task without force: %v", err)
	}
	for range 2 {
		if err := b.d.DestroyTask(b.ctx, config.ID, true); err != nil {
			b.t.Errorf("DestroyTask with force: %v", err)
		}
	}
	if _, err := b.d.InspectTask(b.ctx, config.ID); !errdefs.IsNotFound(err) {
		b.t.Errorf("a destroyed task: %v", err)
	}
	// The ID is free again, as after a failed start.
	if _, _, err := b.d.StartTask(b.ctx, config); err != nil {
		b.t.Errorf("starting a destroyed task: %v", err)
	}
}

func checkInspect(b *bench) {
	config, _ := b.start("read x; exit 4")
	before := time.Now()
	b.wait(config.ID)
	status, err := b.d.InspectTask(b.ctx, config.ID)
	if err != nil || status.ID != config.ID || status.State != driver.TaskExited || status.Exit == nil {
		b.t.Fatalf("exited: %+v, %v", status, err)
	}
	if status.StartedAt.IsZero() || status.StartedAt.After(before) {
		b.t.Errorf("started at %s", status.StartedAt)
	}
	running, _ := b.start("sleep 600")
	status, err = b.d.InspectTask(b.ctx, running.ID)
	if err != nil || status.State != driver.TaskRunning || status.Exit != nil || !status.ExitedAt.IsZero() {
		b.t.Errorf("running: %+v, %v", status, err)
	}
}

// reborn lets the plugin die and returns a new one.
func (b *bench) reborn() {
	b.t.Helper()
	b.d.die()
	b.d = b.connect(b.t, b.opts)
	configure(b.t, b.ctx, b.d, b.opts.Config)
}

func checkRecoverRunning(b *bench) {
	config, handle := b.start("trap 'exit 6' TERM; echo up; while :; do sleep 0.05; done")
	b.up(config)
	b.reborn()
	for range 2 { // a second time is no error
		if err := b.d.RecoverTask(b.ctx, handle); err != nil {
			b.t.Fatalf("RecoverTask: %v", err)
		}
	}
	status, err := b.d.InspectTask(b.ctx, config.ID)
	if err != nil || status.State != driver.TaskRunning {
		b.t.Errorf("recovered: %+v, %v", status, err)
	}
	if _, _, err := b.d.StartTask(b.ctx, config); !errdefs.IsAlreadyExists(err) {
		b.t.Errorf("starting a recovered task: %v", err)
	}
	if err := b.d.StopTask(b.ctx, config.ID, 5*time.Second, "SIGTERM"); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	if r := b.wait(config.ID); r.ExitCode != 6 {
		b.t.Errorf("result %+v, want exit code 6", r)
	}
}

func checkRecoverEnded(b *bench) {
	config, handle := b.start("echo up; sleep 0.3; exit 9")
	b.up(config)
	b.reborn()
	if err := b.d.RecoverTask(b.ctx, handle); err != nil {
		b.t.Fatalf("RecoverTask: %v", err)
	}
	if r := b.wait(config.ID); r.ExitCode != 9 || r.Signal != 0 {
		b.t.Errorf("result %+v, want exit code 9", r)
	}
}

func checkForeignHandle(b *bench) {
	err := b.d.RecoverTask(b.ctx, &driver.Handle{TaskID: "drivertest-foreign", Version: 1 << 20, State: []byte("\x00not ours")})
	if !errdefs.IsInvalidArgument(err) && !errdefs.IsNotFound(err) {
		b.t.Errorf("class %s, %v; want InvalidArgument or NotFound", errdefs.ClassOf(err), err)
	}
}

func checkStats(b *bench) {
	one, _ := b.start("sleep 600")
	two, _ := b.start("sleep 600")
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	samples, err := b.d.TaskStats(ctx, 20*time.Millisecond)
	if err != nil {
		b.t.Fatalf("TaskStats: %v", err)
	}
	seen := map[string]bool{}
	for sample := range samples {
		for _, s := range sample {
			seen[s.TaskID] = true
			if s.Time.IsZero() {
				b.t.Error("a sample has no time")
			}
		}
		if seen[one.ID] && seen[two.ID] {
			break
		}
	}
	if !seen[one.ID] || !seen[two.ID] {
		b.t.Fatalf("the stream ended without samples of both tasks: %v", seen)
	}
	cancel()
	drained(b, samples)
}

func checkEvents(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	events, err := b.d.TaskEvents(ctx)
	if err != nil {
		b.t.Fatalf("TaskEvents: %v", err)
	}
	cancel()
	drained(b, events)
}

func checkLogs(b *bench) {
	config, _ := b.start("echo to-out; echo to-err >&2")
	b.wait(config.ID)
	b.eventually("stdout is in its file", printed(config.Logs.StdoutPath+".0", "to-out\n"))
	b.eventually("stderr is in its file", printed(config.Logs.StderrPath+".0", "to-err\n"))
	if printed(config.Logs.StdoutPath+".0", "to-err")() {
		b.t.Error("stderr is in the file of stdout")
	}
}

func checkRotation(b *bench) {
	if b.opts.NoRotation {
		b.t.Skip("Options.NoRotation")
	}
	config, _ := b.start("i=0; while [ $i -lt 5 ]; do head -c 1048576 /dev/zero; i=$((i+1)); done; echo last")
	b.wait(config.ID)
	newest := func() string {
		found := ""
		for n := range 10 {
			path := fmt.Sprintf("%s.%d", config.Logs.StdoutPath, n)
			if _, err := os.Stat(path); err == nil {
				found = path
			}
		}
		return found
	}
	b.eventually("the last line is in the newest file", func() bool { return printed(newest(), "last\n")() })
	files, err := filepath.Glob(config.Logs.StdoutPath + ".*")
	if err != nil || len(files) < 2 || len(files) > config.Logs.MaxFiles {
		b.t.Errorf("files %v, %v; want 2 to %d", files, err, config.Logs.MaxFiles)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 1<<20+64<<10 {
			b.t.Errorf("%s: %v, %v; want at most 1 MiB", f, info.Size(), err)
		}
	}
}

func checkEnv(b *bench) {
	b.t.Setenv("DRIVERTEST_SECRET", "of-the-agent")
	config, _ := b.start(`[ "$DRIVERTEST" = yes ] || exit 1; [ -z "$DRIVERTEST_SECRET" ] || exit 2`)
	switch r := b.wait(config.ID); r.ExitCode {
	case 0:
	case 1:
		b.t.Error("a variable of TaskConfig.Env is missing in the task")
	case 2:
		b.t.Error("the plugin's own environment reaches the task")
	default:
		b.t.Errorf("result %+v", r)
	}
}

func checkSignalDefaults(b *bench) {
	for name, number := range map[string]int{"HUP": 1, "INT": 2, "PIPE": 13, "TERM": 15} {
		config, _ := b.start("kill -" + name + " $$; exit 3")
		if r := b.wait(config.ID); r.Signal != number {
			b.t.Errorf("a task that sends itself SIG%s ended with %+v", name, r)
		}
	}
}

func containsText(body []byte, text string) bool { return bytes.Contains(body, []byte(text)) }
