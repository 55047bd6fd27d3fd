// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest"
	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/plugin"
)

// needIsolation skips the test if tasks cannot be isolated.
func needIsolation(t testing.TB) {
	t.Helper()
	if why := isolation.Unavailable(); why != "" {
		t.Skipf("tasks cannot be isolated here: %s", why)
	}
}

func TestExecKeepsTheContract(t *testing.T) {
	needIsolation(t)
	o := contract(t, "exec", driverexec.NewExec)
	o.Script = shell
	o.Task = func(c *driver.TaskConfig) {
		openFolders(t, c)
		c.Env["NOMAD_TASK_DIR"] = "/local"
	}
	drivertest.Run(t, o)
}

// contract returns options with which a driver of this package is checked against the contract,
// in this process and as a plugin. Its supervisor ends with the test.
func contract[D closer](t *testing.T, name string, open func(dir string) D) drivertest.Options {
	t.Helper()
	dir, err := os.MkdirTemp("", "driverexec")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endSupervisor(t, filepath.Join(dir, "driver-exec")); _ = os.RemoveAll(dir) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return drivertest.Options{
		New: func(t *testing.T) driver.Driver {
			d := open(filepath.Join(dir, "driver-exec"))
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
			return d
		},
		Binary: exe, Name: name,
		Env: []string{"DRIVEREXEC_TEST_PLUGIN=1", plugin.StateDirEnv + "=" + dir, "DROVER_SUPERVISOR_IDLE=1s"},
	}
}

// shell is the config of a task that runs a script.
func shell(s string) map[string]any {
	return map[string]any{"command": "/bin/sh", "args": []any{"-c", s}}
}

// openFolders gives tasks of any user access to a task's folders, as the agent does.
func openFolders(t *testing.T, c *driver.TaskConfig) {
	t.Helper()
	for _, sub := range []string{"local", "secrets", "tmp"} {
		if err := os.Chmod(filepath.Join(c.TaskDir, sub), 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

// endSupervisor ends an idle supervisor.
func endSupervisor(t testing.TB, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := supervisor.Open(ctx, dir)
	if err == nil {
		err = errors.Join(c.Shutdown(ctx), c.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// closer is the interface of the drivers of this package.
type closer interface {
	driver.Driver
	Close() error
}

// cell is a driver with its own supervisor and alloc directory.
type cell struct {
	closer
	t    testing.TB
	ctx  context.Context
	dir  string // contains the directory alloc
	next int
}

// newCell returns a cell with the driver exec.
func newCell(t testing.TB, config map[string]any) *cell {
	t.Helper()
	return newCellOf(t, config, func(dir string) closer { return driverexec.NewExec(dir) })
}

func newCellOf(t testing.TB, config map[string]any, newDriver func(dir string) closer) *cell {
	t.Helper()
	needIsolation(t)
	dir, err := os.MkdirTemp("", "exec") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	c := &cell{closer: newDriver(filepath.Join(dir, "state")), t: t, ctx: ctx, dir: dir}
	t.Cleanup(func() {
		err := c.Close()
		endSupervisor(t, filepath.Join(dir, "state"))
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
		cancel()
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c.configure(config)
	return c
}

func (c *cell) configure(config map[string]any) {
	c.t.Helper()
	info := c.Info()
	full, err := info.ConfigSchema.Apply(config)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.SetConfig(c.ctx, marshal(c.t, full)); err != nil {
		c.t.Fatal(err)
	}
}

func marshal(t testing.TB, config any) []byte {
	t.Helper()
	body, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// task returns a task with its own alloc.
func (c *cell) task(name string, config map[string]any) *driver.TaskConfig {
	c.t.Helper()
	c.next++
	alloc := filepath.Join(c.dir, "allocs", name)
	dirs := map[string]string{"alloc": "alloc", "logs": "alloc/logs", "local": "web/local", "secrets": "web/secrets", "tmp": "web/tmp"}
	for _, sub := range []string{"logs", "local", "secrets", "tmp"} {
		if err := os.MkdirAll(filepath.Join(alloc, dirs[sub]), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, sub := range dirs {
		if err := os.Chmod(filepath.Join(alloc, sub), 0o777); err != nil {
			c.t.Fatal(err)
		}
	}
	return &driver.TaskConfig{
		ID: name + "/web/1", Name: "web", DriverConfig: marshal(c.t, config), Env: map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"},
		Resources: driver.Resources{CPUMHz: 100, MemoryMB: 64}, AllocDir: alloc, TaskDir: filepath.Join(alloc, "web"),
		Logs: driver.LogConfig{
			StdoutPath: filepath.Join(alloc, "alloc/logs/web.stdout"), StderrPath: filepath.Join(alloc, "alloc/logs/web.stderr"),
			MaxFiles: 2, MaxFileSizeMB: 1,
		},
	}
}

func sh(script string) map[string]any {
	return map[string]any{"command": "/bin/sh", "args": []any{"-c", script}}
}

// start starts a task, which is destroyed at the end of the test.
func (c *cell) start(task *driver.TaskConfig) {
	c.t.Helper()
	if _, _, err := c.StartTask(c.ctx, task); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := c.DestroyTask(c.ctx, task.Ref(), true); err != nil {
			c.t.Error(err)
		}
	})
}

// run runs a task until it ends and returns its output.
func (c *cell) run(task *driver.TaskConfig) (string, driver.ExitResult) {
	c.t.Helper()
	c.start(task)
	r, err := c.WaitTask(c.ctx, task.ID)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.output(task), r
}

// script runs a shell script as a task.
func (c *cell) script(name, script string) string {
	c.t.Helper()
	out, r := c.run(c.task(name, sh(script)))
	if !r.Successful() {
		c.t.Fatalf("%q ended with %+v and wrote %q", script, r, out)
	}
	return out
}

func (c *cell) output(task *driver.TaskConfig) string {
	out, _ := os.ReadFile(task.Logs.StdoutPath + ".0") // it does not exist if nothing was written
	errs, _ := os.ReadFile(task.Logs.StderrPath + ".0")
	return string(out) + string(errs)
}

// eventually polls for a condition.
func (c *cell) eventually(what string, ok func() bool) {
	c.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			c.t.Fatalf("not in time: %s", what)
		}
	}
}

// exec runs a command in a task.
func (c *cell) exec(task *driver.TaskConfig, command ...string) (string, driver.ExitResult, error) {
	var out, errs bytes.Buffer
	r, err := c.ExecTask(c.ctx, task.ID, driver.ExecOptions{Command: command},
		driver.ExecStream{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	return out.String() + errs.String(), r, err
}
