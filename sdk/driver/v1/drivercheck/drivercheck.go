// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package drivercheck holds the rules of sdk/driver/v1 as named checks that can run
// against any driver. It owns the checks and does not link package testing. Only
// drivertest, for authors' tests, and core/pluginhost/plugincheck, for `drover plugin
// check`, import it.
package drivercheck

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// SecretVariable must be set in the environment of the plugin under test, to any
// value: a check verifies that tasks do not inherit it.
const SecretVariable = "DRIVERTEST_SECRET"

// Subject is the driver under test.
type Subject struct {
	// Connect returns the driver as a freshly started process offers it: tasks of an
	// earlier process are unknown to it until they are recovered. die kills the
	// process, or what simulates it, without a shutdown.
	Connect func(*conformance.T) (d driver.Driver, die func())
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Script returns the task config that runs a /bin/sh script. If it is nil, Forever
	// may be the config of a task that runs until it is stopped; checks that need a
	// script are skipped. If both are nil, no task is started, for the reason in
	// NoTask.
	Script  func(script string) map[string]any
	Forever map[string]any
	NoTask  string
	// Task, if set, changes each task's config before it starts.
	Task func(*driver.TaskConfig)
	// Timeout bounds each check; 0 means 2 min.
	Timeout time.Duration
	// Process is true if die kills a process, so that calls end in their middle. Executable is
	// then the plugin's file: only processes of it are killed by checks.
	Process    bool
	Executable string
	// InProcess is true if the driver runs in this process, where checks can see what
	// a connection would hide.
	InProcess bool
	// NoRotation leaves out the check that log files rotate.
	NoRotation bool
	// Foreign marks a driver that was built for Nomad. Nomad's protocol has no error
	// classes, so the checks accept any error where the contract requires a class.
	Foreign bool
}

// Check is one rule of the contract.
type Check struct {
	Name string // short identifier; never changes between versions
	Rule string // the rule in words
	// needs reports whether the rule applies to a driver, from its capabilities or its
	// features; nil means that it applies to all.
	needs func(driver.Driver) bool
	run   func(*bench)
}

// Checks returns all checks, most informative first.
func Checks() []Check {
	var out []Check
	for _, group := range [][]Check{describeChecks, lifeChecks, startChecks, secretChecks, killChecks, stopChecks, recoverChecks, listChecks, cgroupChecks, processChecks, updateChecks, pauseChecks, checkpointChecks, networkChecks, validateChecks, streamChecks, outputChecks, readLogsChecks, execChecks} {
		out = append(out, group...)
	}
	return out
}

// Run runs the check against the subject.
func (c Check) Run(ctx context.Context, s Subject) conformance.Result {
	limit := s.Timeout
	if limit == 0 {
		limit = 2 * time.Minute
	}
	return conformance.Run(ctx, c.Name, c.Rule, limit, func(t *conformance.T) {
		b := &bench{t: t, ctx: t.Context(), subject: s}
		b.connect()
		if c.needs != nil && !c.needs(b.d) {
			t.Skipf("the driver says that it cannot do this")
		}
		b.configure()
		defer b.end()
		c.run(b)
	})
}

func canSignal(d driver.Driver) bool { return d.Info().Capabilities.SendSignals }

func canLog(d driver.Driver) bool { return !d.Info().Capabilities.DisableLogCollection }

func canExec(d driver.Driver) bool { return d.Info().Capabilities.Exec }

// has returns the condition (Check.needs) of rules for an optional ability.
func has(f driver.Feature) func(driver.Driver) bool {
	return func(d driver.Driver) bool { return driver.Has(d, f) }
}

// onMachine reports whether tasks run in the machine's PID namespace. The kernel does not
// apply the default actions of signals to process 1 of a task's own namespace.
func onMachine(d driver.Driver) bool {
	return d.Info().Capabilities.FSIsolation == driver.FSIsolationNone
}

// bench is the state of one running check.
type bench struct {
	t       *conformance.T
	ctx     context.Context
	subject Subject
	d       driver.Driver
	die     func()
	started []driver.TaskRef
}

func (b *bench) connect() { b.d, b.die = b.subject.Connect(b.t) }

// configure passes the agent config to the driver, as the host does.
func (b *bench) configure() {
	conformance.Configure(b.t, b.d.Info().ConfigSchema, b.subject.Config, b.d.SetConfig)
}

// reborn kills the plugin and connects to a new process.
func (b *bench) reborn() {
	b.die()
	b.connect()
	b.configure()
}

// refused records a problem if err is not of one of the classes that the contract
// requires.
func (b *bench) refused(what string, err error, classes ...errdefs.Class) {
	if err == nil {
		b.t.Errorf("%s: there was no error, want one of class %v", what, classes)
		return
	}
	for _, c := range classes {
		if b.subject.Foreign || errdefs.ClassOf(err) == c {
			return
		}
	}
	b.t.Errorf("%s: the error is of class %q (%v), want %v", what, errdefs.ClassOf(err), err, classes)
}

// forever is the script of a task that runs until it is stopped.
const forever = "sleep 600"

// config returns the task config that runs the script.
func (b *bench) config(script string) map[string]any {
	switch s := b.subject; {
	case s.Script != nil:
		return s.Script(script)
	case s.Forever != nil && script == forever:
		return s.Forever
	case s.Forever != nil:
		b.t.Skipf("needs a task config that runs any shell script, and there is one of a fixed task only")
	default:
		b.t.Skipf("no task is started: %s", s.NoTask)
	}
	return nil
}

// sequence makes task IDs unique across runs, since a driver may outlive the checks.
var sequence atomic.Int64

// idVariable is in the environment of every task: its processes are found by it.
const idVariable = "DRIVERTEST_TASK"

// task returns the config of a task that runs the script.
func (b *bench) task(script string) *driver.TaskConfig {
	info := b.d.Info()
	applied, err := info.TaskConfigSchema.Apply(b.config(script))
	if err != nil {
		b.t.Fatalf("the task config to check with does not fit the driver's schema: %v", err)
	}
	body, err := json.Marshal(applied)
	if err != nil {
		b.t.Fatalf("encode the task config: %v", err)
	}
	dir := b.t.TempDir()
	taskDir, logDir := filepath.Join(dir, "web"), filepath.Join(dir, "alloc", "logs")
	// #nosec: a task may run as another user
	if err := os.Chmod(dir, 0o755); err != nil {
		b.t.Fatalf("open the alloc's directory to the task: %v", err)
	}
	for _, sub := range []string{filepath.Join(taskDir, "local"), filepath.Join(taskDir, "secrets"), filepath.Join(taskDir, "tmp"), logDir} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.t.Fatalf("make the alloc's directory: %v", err)
		}
	}
	config := &driver.TaskConfig{
		ID: fmt.Sprintf("drivertest-%d-%d-%d", os.Getpid(), time.Now().UnixNano(), sequence.Add(1)), Name: "web",
		Namespace: "default", JobID: "job", JobName: "job", TaskGroup: "group", AllocID: "0c3e7a60-0000-0000-0000-000000000000",
		AllocName: "job.group[0]", NodeID: "node", NodeName: "node",
		DriverConfig: body, Env: map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "DRIVERTEST": "yes", "NOMAD_TASK_DIR": filepath.Join(taskDir, "local")},
		Resources: driver.Resources{CPUMHz: 100, MemoryMB: 64},
		AllocDir:  dir, TaskDir: taskDir,
		Logs: driver.LogConfig{
			StdoutPath: filepath.Join(logDir, "web.stdout"), StderrPath: filepath.Join(logDir, "web.stderr"),
			MaxFiles: 3, MaxFileSizeMB: 1,
		},
		KillTimeout: time.Minute,
	}
	config.Env[idVariable] = config.ID
	if b.subject.Task != nil {
		b.subject.Task(config)
	}
	return config
}

// start starts a task with the script and registers its cleanup.
func (b *bench) start(script string) (*driver.TaskConfig, *driver.Handle) {
	config := b.task(script)
	return config, b.startConfig(b.ctx, config)
}

// startConfig starts the task and registers its cleanup.
func (b *bench) startConfig(ctx context.Context, config *driver.TaskConfig) *driver.Handle {
	b.started = append(b.started, config.Ref())
	handle, _, err := b.d.StartTask(ctx, config)
	if err != nil {
		b.t.Fatalf("StartTask: %v", err)
	}
	if handle.TaskID != config.ID {
		b.t.Errorf("the handle is of task %q, want %q", handle.TaskID, config.ID)
	}
	return handle
}

// end destroys the tasks of the check before their directories are removed.
func (b *bench) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 30*time.Second)
	defer cancel()
	for _, ref := range b.started {
		if err := b.d.DestroyTask(ctx, ref, true); err != nil {
			b.t.Errorf("DestroyTask at the end: %v", err)
		}
	}
}

// wait returns the task's exit result.
func (b *bench) wait(id string) driver.ExitResult {
	r, err := b.d.WaitTask(b.ctx, id)
	if err != nil {
		b.t.Fatalf("WaitTask: %v", err)
	}
	return r
}

// running records a problem if the task is not running.
func (b *bench) running(id, when string) {
	status, err := b.d.InspectTask(b.ctx, id)
	if err != nil || status.State != driver.TaskRunning {
		b.t.Errorf("%s the task should run and is %+v, %v", when, status, err)
	}
}

// eventually waits until cond is true, or fails when the check's time is up.
func (b *bench) eventually(what string, cond func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}
