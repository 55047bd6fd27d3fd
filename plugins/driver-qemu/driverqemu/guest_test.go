// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

// page returns the page of the guest's web server, or "" if it does not answer.
func page(port int) string { return fetch(port, "") }

// fetch returns a file of the guest's web server, or "" if it does not answer.
func fetch(port int, file string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/%s", port, file), nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "" // it is still booting
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

// web returns a task that runs the small guest, and the port of its web server.
func (n *node) web(config map[string]any) (*driver.TaskConfig, int) {
	n.t.Helper()
	full := map[string]any{"image_path": n.guest(), "graceful_shutdown": true, "port_map": []any{map[string]any{"http": 80}}}
	for k, v := range config {
		full[k] = v
	}
	task, port := n.task(full), freePort(n.t)
	task.Ports = []driver.Port{{Label: "http", Value: port, HostIP: "127.0.0.1"}}
	return task, port
}

func (n *node) serves(port int) {
	n.t.Helper()
	eventually(n.t, "the guest serves its page", func() bool { return page(port) == "hello from the guest\n" })
}

func TestAGuestBootsFromItsImageServesAPortAndEndsByItsPowerButton(t *testing.T) {
	t.Parallel() // it waits for a virtual machine
	n := newNode(t, nil)
	task, port := n.web(nil)
	n.run(task)
	n.serves(port)
	ctx, cancel := context.WithCancel(t.Context())
	samples, err := n.d.TaskStats(ctx, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for s := range samples {
		if len(s) == 1 && s[0].TaskID == task.ID && s[0].Memory.RSS > 50<<20 && s[0].CPU.Percent > 0 {
			break
		}
		t.Logf("sample %+v", s)
	}
	cancel()
	begin := time.Now()
	const timeout = 2 * time.Minute
	if err := n.d.StopTask(t.Context(), task.ID, timeout, ""); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took >= timeout-2*time.Second {
		t.Errorf("the guest did not end by itself: %s", took)
	}
	if r, err := n.d.WaitTask(t.Context(), task.ID); err != nil || !r.Successful() {
		t.Errorf("result %+v, %v", r, err)
	}
	if !strings.Contains(n.console(task), "power button") {
		t.Errorf("the guest was not asked: %q", n.console(task))
	}
}

func TestAMachineOutlivesKillsOfThePluginAndIsShutDownByItsGuestAgent(t *testing.T) {
	t.Parallel() // it waits for a virtual machine
	if _, err := exec.LookPath("qemu-ga"); err != nil {
		t.Skip("qemu-guest-agent is missing: the guest has no agent")
	}
	n := newNode(t, nil)
	task, port := n.web(map[string]any{"guest_agent": true})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	launch := func() (driver.Driver, func()) {
		t.Helper()
		cmd := exec.Command(exe)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), pluginEnv + "=1", plugin.StateDirEnv + "=" + n.state, "DROVER_SUPERVISOR_IDLE=1s"}
		conn, die := plugintest.Launch(t, cmd)
		drivers, err := driver.Connect(t.Context(), conn)
		if err == nil {
			err = drivers[0].SetConfig(t.Context(), []byte("{}"))
		}
		if err != nil {
			t.Fatal(err)
		}
		return drivers[0], die
	}
	d, die := launch()
	handle, _, err := d.StartTask(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // killed by the test, since the plugin is gone by then
		if err := n.d.RecoverTask(context.Background(), handle); err != nil {
			t.Error(err)
		}
		n.destroy(task)
	})
	n.serves(port)
	before, err := d.InspectTask(t.Context(), task.ID)
	if err != nil {
		t.Fatal(err)
	}
	die()
	if page(port) == "" {
		t.Error("the guest does not serve while there is no plugin")
	}
	d, die = launch()
	if err := d.RecoverTask(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	after, err := d.InspectTask(t.Context(), task.ID)
	if err != nil || after.Attributes["pid"] != before.Attributes["pid"] || after.Attributes["machine"] != "running" {
		t.Errorf("recovered: %+v, %v; was %+v", after, err, before)
	}
	limited, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	events, err := d.TaskEvents(limited)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := <-events; !ok || e.TaskID != task.ID || e.Annotations["guest_agent"] != "up" {
		t.Errorf("event %+v, open %v; want that the guest agent answers", e, ok)
	}
	if s, err := d.InspectTask(t.Context(), task.ID); err != nil || s.Attributes["guest_agent"] != "up" {
		t.Errorf("inspect: %+v, %v", s, err)
	}
	// It ends while no plugin runs, and its exit code is kept.
	stopped := make(chan error, 1)
	go func() { stopped <- d.StopTask(t.Context(), task.ID, 2*time.Minute, "") }()
	eventually(t, "the guest shuts down", func() bool { return strings.Contains(n.console(task), "shutdown by the agent") })
	<-stopped
	die()
	d, _ = launch()
	if err := d.RecoverTask(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	if r, err := d.WaitTask(t.Context(), task.ID); err != nil || !r.Successful() {
		t.Errorf("result %+v, %v", r, err)
	}
}

func TestAGuestThatDoesNotObeyIsCutOffInTime(t *testing.T) {
	t.Parallel() // it waits for a virtual machine
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20) // there is nothing to boot, and no guest that could shut down
	task := n.task(map[string]any{"image_path": "disk.img", "graceful_shutdown": true})
	n.run(task)
	begin := time.Now()
	const timeout = 3 * time.Second
	if err := n.d.StopTask(t.Context(), task.ID, timeout, ""); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < timeout*8/10 {
		t.Errorf("it was given only %s of %s", took, timeout)
	}
	if r, err := n.d.WaitTask(t.Context(), task.ID); err != nil || !r.Successful() {
		t.Errorf("result %+v, %v; its disks are to be closed before the kill", r, err)
	}
}

func TestAMachineThatHangsIsKilledThoughNobodyWaitsForIt(t *testing.T) {
	t.Parallel() // it waits for a virtual machine
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	task := n.task(map[string]any{"image_path": "disk.img", "graceful_shutdown": true})
	handle := n.run(task)
	pid, err := strconv.Atoi(n.pid(task))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := n.d.StopTask(ctx, task.ID, 2*time.Second, ""); !errdefs.IsDeadlineExceeded(err) {
		t.Errorf("a stop that is given up: class %s, %v", errdefs.ClassOf(err), err)
	}
	// The plugin dies as well.
	if err := n.d.Close(); err != nil {
		t.Fatal(err)
	}
	n.start(nil)
	if err := n.d.RecoverTask(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	if r, err := n.d.WaitTask(t.Context(), task.ID); err != nil || r.Signal != 9 {
		t.Errorf("result %+v, %v; want signal 9", r, err)
	}
}

func TestWhatAGuestWritesIsKeptOverARestartUnlessItsDisksAreSnapshots(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	for _, c := range []struct {
		args []any
		fits string
	}{{nil, "READ+WRITE"}, {[]any{"-snapshot"}, "READ"}} {
		task := n.task(map[string]any{"image_path": "disk.img", "args": c.args})
		n.run(task)
		modes := ""
		if n.writable(task, n.dir+"/web/disk.img") {
			modes = "+WRITE"
		}
		if "READ"+modes != c.fits {
			t.Errorf("args %v: the image is open for READ%s", c.args, modes)
		}
		n.destroy(task)
	}
}

// writable reports whether a VM has a file open for writing.
func (n *node) writable(task *driver.TaskConfig, path string) bool {
	n.t.Helper()
	dir := "/proc/" + n.pid(task)
	entries, err := os.ReadDir(dir + "/fd")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(dir + "/fd/" + e.Name()); err != nil || to != path {
			continue
		}
		body, err := os.ReadFile(dir + "/fdinfo/" + e.Name())
		if err != nil {
			n.t.Fatal(err)
		}
		for line := range strings.Lines(string(body)) {
			if v, ok := strings.CutPrefix(line, "flags:"); ok {
				if flags, err := strconv.ParseInt(strings.TrimSpace(v), 8, 64); err == nil && flags&syscall.O_ACCMODE != 0 {
					return true
				}
			}
		}
	}
	return false
}

func TestAMachineTakesNoSignalsAndNoCommands(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	task := n.task(map[string]any{"image_path": "disk.img"})
	n.run(task)
	if err := n.d.SignalTask(t.Context(), task.ID, "SIGHUP"); !errdefs.IsUnimplemented(err) {
		t.Errorf("signal: %v", err)
	}
	if _, err := n.d.ExecTask(t.Context(), task.ID, driver.ExecOptions{}, driver.ExecStream{}); !errdefs.IsUnimplemented(err) {
		t.Errorf("exec: %v", err)
	}
	if s, err := n.d.InspectTask(t.Context(), task.ID); err != nil || s.State != driver.TaskRunning {
		t.Errorf("the machine is %+v, %v", s, err)
	}
}
