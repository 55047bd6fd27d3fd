// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-qemu/driverqemu"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

const pluginEnv = "DRIVERQEMU_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == scriptEmulator {
		runScript()
		return
	}
	if os.Getenv(pluginEnv) != "" || len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "__drover") {
		if err := driverqemu.Main(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := os.Setenv("DROVER_SUPERVISOR_IDLE", "1s"); err != nil {
		panic(err)
	}
	code := m.Run()
	if guestDir != "" {
		_ = os.RemoveAll(guestDir)
	}
	os.Exit(code)
}

// node is a driver with the directories of one alloc.
type node struct {
	t     *testing.T
	state string
	dir   string // of the alloc
	d     *driverqemu.Driver
	tasks int
}

func needQEMU(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"qemu-system-x86_64", "qemu-img"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: install qemu-system-x86 and qemu-utils", tool)
		}
	}
}

func newNode(t *testing.T, config map[string]any) *node {
	t.Helper()
	needQEMU(t)
	state, err := os.MkdirTemp("", "driverqemu")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, state: state, dir: filepath.Join(t.TempDir(), "alloc-dir")}
	for _, sub := range []string{"web/local", "web/secrets", "web/tmp", "alloc/logs"} {
		if err := os.MkdirAll(filepath.Join(n.dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.start(config)
	t.Cleanup(func() {
		if err := n.d.Close(); err != nil {
			t.Error(err)
		}
		c, err := supervisor.Open(context.Background(), filepath.Join(state, "driver-exec"))
		if err == nil {
			left, listErr := c.List(context.Background())
			for _, s := range left { // left behind by a test that failed
				err = errors.Join(err, c.Destroy(context.Background(), s.ID, true))
			}
			err = errors.Join(err, listErr, c.Shutdown(context.Background()), c.Close())
		}
		if err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(state)
	})
	return n
}

// start simulates a new process of the plugin.
func (n *node) start(config map[string]any) {
	n.t.Helper()
	n.d = driverqemu.New(n.state)
	n.configure(config)
}

func (n *node) configure(config map[string]any) {
	n.t.Helper()
	info := n.d.Info()
	full, err := info.ConfigSchema.Apply(config)
	if err != nil {
		n.t.Fatal(err)
	}
	body, err := json.Marshal(full)
	if err == nil {
		err = n.d.SetConfig(n.t.Context(), body)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) task(config map[string]any) *driver.TaskConfig {
	n.t.Helper()
	info := n.d.Info()
	full, err := info.TaskConfigSchema.Apply(config)
	if err != nil {
		n.t.Fatal(err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		n.t.Fatal(err)
	}
	n.tasks++
	logs := filepath.Join(n.dir, "alloc", "logs")
	return &driver.TaskConfig{
		ID: fmt.Sprintf("%s-%d", n.t.Name(), n.tasks), Name: "web", AllocName: "job.group[0]", AllocID: "0c3e7a60-0000-0000-0000-000000000000",
		DriverConfig: body, Env: map[string]string{"PATH": "/usr/bin:/bin"}, Resources: driver.Resources{CPUMHz: 100, MemoryMB: 256},
		AllocDir: n.dir, TaskDir: filepath.Join(n.dir, "web"),
		Logs: driver.LogConfig{StdoutPath: filepath.Join(logs, "web.stdout"), StderrPath: filepath.Join(logs, "web.stderr"), MaxFiles: 3, MaxFileSizeMB: 10},
	}
}

// disk creates an empty raw disk in the task's directory and returns its path there.
func (n *node) disk(name string, size int64) string {
	n.t.Helper()
	path := filepath.Join(n.dir, "web", name)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		n.t.Fatal(err)
	}
	return name
}

func (n *node) qemuImg(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("qemu-img %s: %s", args, out)
	}
}

func (n *node) run(task *driver.TaskConfig) *driver.Handle {
	n.t.Helper()
	h, _, err := n.d.StartTask(n.t.Context(), task)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { n.destroy(task) })
	return h
}

// refused checks that a task cannot be started, and the reason.
func (n *node) refused(task *driver.TaskConfig, class errdefs.Class, why string) {
	n.t.Helper()
	_, _, err := n.d.StartTask(n.t.Context(), task)
	if errdefs.ClassOf(err) != class || err == nil || !strings.Contains(err.Error(), why) {
		n.t.Errorf("class %s, %v; want %s and %q", errdefs.ClassOf(err), err, class, why)
	}
	if _, err := n.d.InspectTask(n.t.Context(), task.ID); !errdefs.IsNotFound(err) {
		n.t.Errorf("something is left: %v", err)
	}
}

// refusedByItsSchema checks that the schema rejects a config.
func (n *node) refusedByItsSchema(config map[string]any, why string) {
	n.t.Helper()
	info := n.d.Info()
	if err := info.TaskConfigSchema.Validate(config); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), why) {
		n.t.Errorf("%v; want %q", err, why)
	}
}

func (n *node) destroy(task *driver.TaskConfig) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.d.DestroyTask(ctx, task.Ref(), true); err != nil {
		n.t.Error(err)
	}
}

func (n *node) console(task *driver.TaskConfig) string {
	body, _ := os.ReadFile(task.Logs.StdoutPath + ".0") // it may not exist yet
	return string(body)
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	// Emulating a guest is slow on a loaded machine.
	deadline := time.Now().Add(3 * time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

var guestDir string

// guestImage is the small guest, built once.
var guestImage = sync.OnceValues(func() (path string, err error) {
	if guestDir, err = os.MkdirTemp("", "driverqemu-guest"); err != nil {
		return "", err
	}
	path = filepath.Join(guestDir, "guest.img")
	if out, err := exec.Command("../guest/make.sh", path).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// guest copies the small guest's disk to the task's directory, or skips the test.
func (n *node) guest() string {
	n.t.Helper()
	if testing.Short() {
		n.t.Skip("it starts a virtual machine")
	}
	image, err := guestImage()
	var exit *exec.ExitError
	const missing = 77
	if errors.As(err, &exit) && exit.ExitCode() == missing {
		n.t.Skip(err.Error())
	}
	if err != nil {
		n.t.Fatal(err)
	}
	body, err := os.ReadFile(image)
	if err == nil {
		err = os.WriteFile(filepath.Join(n.dir, "web", "local", "guest.img"), body, 0o644)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return "local/guest.img"
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
