// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package drivertest checks that a task driver keeps the contract of
// sdk/driver/v1. It owns the checks and the three ways to run them: in process,
// over gRPC, and in a real plugin process that is killed. It owns no driver.
// Only tests import it:
//
//	func TestContract(t *testing.T) {
//		drivertest.Run(t, drivertest.Options{
//			New:    func(t *testing.T) driver.Driver { return rawexec.New() },
//			Script: func(s string) map[string]any { return map[string]any{"command": "/bin/sh", "args": []any{"-c", s}} },
//		})
//	}
package drivertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

// Options says what is checked and how.
type Options struct {
	// New makes the driver as a fresh plugin process would: tasks that an
	// earlier one started are unknown to it until they are recovered. If nil,
	// the checks in process and over gRPC are left out.
	New func(t *testing.T) driver.Driver
	// Binary is the path of a built plugin, Env its environment and Name the
	// driver in it; if Binary is empty, the checks in a real process are left out.
	Binary string
	Env    []string
	Name   string
	// Script returns the task config that runs a /bin/sh script.
	Script func(script string) map[string]any
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Task changes each task's config before it starts, if set.
	Task func(*driver.TaskConfig)
	// Timeout bounds each check; 0 means 30 s. Images may need longer.
	Timeout time.Duration
	// NoRotation leaves out the check that log files rotate.
	NoRotation bool
}

// Run runs all checks in all ways that opts allows.
func Run(t *testing.T, opts Options) {
	t.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = 30 * time.Second
	}
	if opts.New == nil && opts.Binary == "" {
		t.Fatal("drivertest: set New, Binary or both")
	}
	if opts.New != nil {
		t.Run("in process", func(t *testing.T) { all(t, opts, inProcess) })
		t.Run("over gRPC", func(t *testing.T) { all(t, opts, overGRPC) })
	}
	if opts.Binary != "" {
		t.Run("as a plugin process", func(t *testing.T) { all(t, opts, asProcess) })
	}
}

// connected is a driver to check, and how its process dies.
type connected struct {
	driver.Driver
	die func()
}

type connect func(t *testing.T, opts Options) connected

func inProcess(t *testing.T, opts Options) connected {
	return connected{Driver: opts.New(t), die: func() {}}
}

func overGRPC(t *testing.T, opts Options) connected {
	t.Helper()
	conn, die := plugintest.Serve(t, driver.Service(opts.New(t)))
	drivers, err := driver.Connect(t.Context(), conn)
	if err != nil || len(drivers) != 1 {
		t.Fatalf("connect: %d drivers, %v", len(drivers), err)
	}
	return connected{Driver: drivers[0], die: die}
}

// bench is what one check works with.
type bench struct {
	t       *testing.T
	ctx     context.Context
	opts    Options
	d       connected
	connect connect
	started []string
}

// sequence makes task IDs that no run before had: a driver may outlive the tests.
var sequence atomic.Int64

// task makes the config of a task that runs the script.
func (b *bench) task(script string) *driver.TaskConfig {
	b.t.Helper()
	info := b.d.Info()
	applied, err := info.TaskConfigSchema.Apply(b.opts.Script(script))
	if err != nil {
		b.t.Fatalf("the config of Options.Script does not fit the driver's schema: %v", err)
	}
	body, err := json.Marshal(applied)
	if err != nil {
		b.t.Fatal(err)
	}
	dir := b.t.TempDir()
	// #nosec: a task may run as another user
	if err := os.Chmod(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	taskDir, logDir := filepath.Join(dir, "web"), filepath.Join(dir, "alloc", "logs")
	for _, sub := range []string{filepath.Join(taskDir, "local"), filepath.Join(taskDir, "secrets"), filepath.Join(taskDir, "tmp"), logDir} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.t.Fatal(err)
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
		KillTimeout: 5 * time.Second,
	}
	if b.opts.Task != nil {
		b.opts.Task(config)
	}
	return config
}

// start starts the script and sees to its end.
func (b *bench) start(script string) (*driver.TaskConfig, *driver.Handle) {
	b.t.Helper()
	config := b.task(script)
	return config, b.startConfig(config)
}

// startConfig starts the task and sees to its end.
func (b *bench) startConfig(config *driver.TaskConfig) *driver.Handle {
	b.t.Helper()
	handle, _, err := b.d.StartTask(b.ctx, config)
	if err != nil {
		b.t.Fatalf("StartTask: %v", err)
	}
	b.started = append(b.started, config.ID)
	if handle.TaskID != config.ID {
		b.t.Errorf("the handle is of task %q, want %q", handle.TaskID, config.ID)
	}
	return handle
}

// end destroys what the check started. It is deferred, not a cleanup of t: those
// would close the newest connection first.
func (b *bench) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, id := range b.started {
		if err := b.d.DestroyTask(ctx, id, true); err != nil {
			b.t.Errorf("DestroyTask at the end: %v", err)
		}
	}
}

// wait returns how the task ended.
func (b *bench) wait(id string) driver.ExitResult {
	b.t.Helper()
	r, err := b.d.WaitTask(b.ctx, id)
	if err != nil {
		b.t.Fatalf("WaitTask: %v", err)
	}
	return r
}

// eventually waits for cond until the check's time is up.
func (b *bench) eventually(what string, cond func() bool) {
	b.t.Helper()
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

// printed returns whether the log file has the text.
func printed(path, text string) func() bool {
	return func() bool {
		body, err := os.ReadFile(path)
		return err == nil && containsText(body, text)
	}
}

// configure gives the driver its agent config, as the host does.
func configure(t *testing.T, ctx context.Context, d driver.Driver, config map[string]any) {
	t.Helper()
	info := d.Info()
	full, err := info.ConfigSchema.Apply(config)
	if err != nil {
		t.Fatalf("Options.Config does not fit the driver's schema: %v", err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SetConfig(ctx, body); err != nil {
		t.Fatalf("SetConfig: %v", err)
	}
}

// command starts the plugin under test.
func (o Options) command() *exec.Cmd {
	cmd := exec.Command(o.Binary)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, o.Env...)
	return cmd
}
