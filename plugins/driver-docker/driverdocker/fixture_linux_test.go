// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	"github.com/drover-project/drover/plugins/driver-docker/driverdocker"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

var theDaemon = struct {
	sync.Once
	d   *dockertest.Daemon
	err error
}{}

// dockerd returns the daemon that the tests of this package share.
func dockerd(t testing.TB) *dockertest.Daemon {
	t.Helper()
	theDaemon.Do(func() { theDaemon.d, theDaemon.err = dockertest.Start() })
	if theDaemon.err != nil {
		t.Skipf("no Docker daemon: %v", theDaemon.err)
	}
	return theDaemon.d
}

func TestMain(m *testing.M) {
	if names := os.Getenv(swapEnv); names != "" {
		swapForever(names)
	}
	code := m.Run()
	if theDaemon.d != nil {
		theDaemon.d.Remove()
	}
	os.Exit(code)
}

// node is a node with a docker driver.
type node struct {
	t      testing.TB
	d      *driverdocker.Driver
	docker *dockertest.Daemon
	dir    string
	config map[string]any
}

func newNode(t testing.TB, config map[string]any) *node {
	t.Helper()
	n := &node{t: t, docker: dockerd(t), dir: t.TempDir(), config: map[string]any{}}
	maps.Copy(n.config, config)
	n.config["endpoint"] = n.docker.Endpoint()
	n.start()
	t.Cleanup(func() { n.close() })
	return n
}

// start creates the driver as a new plugin process does.
func (n *node) start() {
	n.t.Helper()
	d, err := driverdocker.New(n.dir, hclog.NewNullLogger())
	if err != nil {
		n.t.Fatal(err)
	}
	n.d = d
	n.configure(n.config)
}

func (n *node) configure(config map[string]any) {
	n.t.Helper()
	info := n.d.Info()
	full, err := info.ConfigSchema.Apply(config)
	if err != nil {
		n.t.Fatal(err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.d.SetConfig(n.t.Context(), body); err != nil {
		n.t.Fatal(err)
	}
}

// close ends the driver; containers keep running.
func (n *node) close() {
	if n.d != nil {
		if err := n.d.Close(); err != nil {
			n.t.Errorf("close the driver: %v", err)
		}
		n.d = nil
	}
}

var serial atomic.Int64

// task returns a task config; config is its config block without the image.
func (n *node) task(config map[string]any) *driver.TaskConfig {
	n.t.Helper()
	return newTask(n.t, n.d, config)
}

func newTask(t testing.TB, d driver.Driver, config map[string]any) *driver.TaskConfig {
	t.Helper()
	block := map[string]any{"image": dockertest.BusyBox}
	maps.Copy(block, config)
	info := d.Info()
	full, err := info.TaskConfigSchema.Apply(block)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	alloc := filepath.Join(t.TempDir(), "a")
	for _, dir := range []string{"alloc/logs", "alloc/data", "web/local", "web/secrets"} {
		if err := os.MkdirAll(filepath.Join(alloc, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	// As created by the agent: only root can access a task's directories by path.
	for dir, mode := range map[string]os.FileMode{"web/local": 0o777, "web/secrets": 0o777, "web": 0o700} {
		if err := os.Chmod(filepath.Join(alloc, dir), mode); err != nil {
			t.Fatal(err)
		}
	}
	serial := serial.Add(1)
	allocID := fmt.Sprintf("%08x-0000-0000-0000-%012x", os.Getpid(), serial)
	return &driver.TaskConfig{
		ID: allocID + "/web/1", Name: "web", Namespace: "default", JobID: "shop", JobName: "shop", TaskGroup: "app",
		AllocID: allocID, AllocName: "shop.app[0]", NodeID: "node-1", NodeName: "host", DriverConfig: body,
		Env:       map[string]string{"NOMAD_TASK_DIR": "/local", "NOMAD_ALLOC_DIR": "/alloc", "NOMAD_SECRETS_DIR": "/secrets"},
		Resources: driver.Resources{CPUMHz: 100, CPUPercent: 10, MemoryMB: 64},
		AllocDir:  alloc, TaskDir: filepath.Join(alloc, "web"),
		Logs: driver.LogConfig{
			StdoutPath: filepath.Join(alloc, "alloc", "logs", "web.stdout"), StderrPath: filepath.Join(alloc, "alloc", "logs", "web.stderr"),
			MaxFiles: 5, MaxFileSizeMB: 10,
		},
		KillTimeout: 5 * time.Second,
	}
}

func script(s string) map[string]any {
	return map[string]any{"command": "/bin/sh", "args": []any{"-c", s}, "init": true}
}

func with(a, b map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func limit(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// run starts a task, which is destroyed at the end of the test.
func (n *node) run(tc *driver.TaskConfig) *driver.Handle {
	n.t.Helper()
	h, _, err := n.d.StartTask(limit(n.t), tc)
	if err != nil {
		n.t.Fatalf("StartTask: %v", err)
	}
	n.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if n.d != nil {
			if err := n.d.DestroyTask(ctx, tc.Ref(), true); err != nil {
				n.t.Errorf("DestroyTask: %v", err)
			}
		}
	})
	return h
}

func (n *node) wait(tc *driver.TaskConfig) driver.ExitResult {
	n.t.Helper()
	r, err := n.d.WaitTask(limit(n.t), tc.ID)
	if err != nil {
		n.t.Fatalf("WaitTask: %v", err)
	}
	return r
}

// output runs a task until it ends and returns its output.
func (n *node) output(tc *driver.TaskConfig) string {
	n.t.Helper()
	n.run(tc)
	r := n.wait(tc)
	out := n.printed(tc)
	if r.ExitCode != 0 {
		body, _ := os.ReadFile(tc.Logs.StderrPath + ".0") // only for the error message
		n.t.Fatalf("the task ended with %+v, output %q, %q", r, out, body)
	}
	return out
}

func (n *node) printed(tc *driver.TaskConfig) string {
	n.t.Helper()
	files, err := filepath.Glob(tc.Logs.StdoutPath + ".*")
	if err != nil {
		n.t.Fatal(err)
	}
	var out strings.Builder
	for i := range files {
		body, err := os.ReadFile(fmt.Sprintf("%s.%d", tc.Logs.StdoutPath, i))
		if err != nil {
			n.t.Fatal(err)
		}
		out.Write(body)
	}
	return out.String()
}

// eventually waits for cond.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// cli runs the docker CLI.
func (n *node) cli(args ...string) string {
	n.t.Helper()
	out, err := n.docker.CLI(args...)
	if err != nil {
		n.t.Fatal(err)
	}
	return out
}

// inspect returns a property of the task's container.
func (n *node) inspect(tc *driver.TaskConfig, format string) string {
	n.t.Helper()
	return n.cli("inspect", "-f", format, tc.Name+"-"+tc.AllocID)
}
