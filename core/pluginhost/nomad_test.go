// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/logpipe"
	"github.com/drover-project/drover/sdk/errdefs"
)

// nomadBinary is the built nomadplugin.
var nomadBinary string

// collect is the log collector's process.
func collect(dir string) {
	l, err := logpipe.Listen(filepath.Join(dir, logpipe.SocketName))
	if err == nil {
		err = logpipe.NewCollector(time.Second).Serve(context.Background(), l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// nomadConfig is that of a host with the plugin built for Nomad in its directory.
func nomadConfig(t *testing.T) pluginhost.Config {
	t.Helper()
	cfg := config(t)
	if err := os.Symlink(nomadBinary, filepath.Join(cfg.Dir, "nomad-hello")); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.LogCollector = []string{self, "-collect"}
	cfg.DriverConfig = map[string]map[string]any{"nomad-hello": {"shell": "/bin/bash"}}
	cfg.Topology = func() *model.Topology { return &model.Topology{Cores: make([]model.Core, 3)} }
	return cfg
}

func hello(t *testing.T, h *pluginhost.Host) driver.Driver {
	t.Helper()
	d, err := h.Driver("hello")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func helloTask(t *testing.T, d driver.Driver, id, script string) (*driver.Handle, driver.LogConfig) {
	t.Helper()
	dir := t.TempDir()
	logs := driver.LogConfig{StdoutPath: filepath.Join(dir, "web.stdout"), StderrPath: filepath.Join(dir, "web.stderr"), MaxFiles: 3, MaxFileSizeMB: 1}
	handle, _, err := d.StartTask(t.Context(), &driver.TaskConfig{
		ID: id, Name: "web", AllocDir: dir, DriverConfig: []byte(`{"script":"` + script + `","args":["a b"]}`),
		Env: map[string]string{"PATH": os.Getenv("PATH"), "GREETING": "hi"}, Logs: logs,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.DestroyTask(context.Background(), driver.TaskRef{ID: id}, true) })
	return handle, logs
}

func logHas(base, text string) func() bool {
	return func() bool {
		body, err := os.ReadFile(base + ".0")
		return err == nil && strings.Contains(string(body), text)
	}
}

func TestAPluginBuiltForNomadServesItsDriver(t *testing.T) {
	h := start(t, nomadConfig(t))
	st := only(t, h)
	if st.State != pluginhost.StateRunning || st.Version != "v7.7.7" || strings.Join(st.Drivers, " ") != "hello" {
		t.Fatalf("status %+v", st)
	}
	prints, _ := h.Fingerprints()
	if len(prints) != 1 || prints[0].Health != driver.HealthHealthy || prints[0].Attributes["driver.hello"] != "true" ||
		prints[0].Attributes["driver.hello.shell"] != "/bin/bash" || prints[0].Attributes["driver.hello.room"] != "5 GiB" || prints[0].Attributes["driver.hello.cores"] != "3" {
		t.Fatalf("fingerprints %+v", prints)
	}
	if err := prints[0].TaskConfigSchema.Validate(map[string]any{"bogus": 1}); err == nil {
		t.Fatal("a bad config passes the schema")
	}
	d := hello(t, h)
	_, logs := helloTask(t, d, "t1", "echo $GREETING $1; echo oh >&2; exit 3")
	if r, err := d.WaitTask(t.Context(), "t1"); err != nil || r.ExitCode != 3 {
		t.Fatalf("result %+v, %v", r, err)
	}
	eventually(t, "its output is in its logs", func() bool { return logHas(logs.StdoutPath, "hi a b\n")() && logHas(logs.StderrPath, "oh\n")() })
	if err := d.DestroyTask(t.Context(), driver.TaskRef{ID: "t1"}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := d.InspectTask(t.Context(), "t1"); !errdefs.IsNotFound(err) {
		t.Fatalf("a destroyed task: %v", err)
	}
	_, _, err := d.StartTask(t.Context(), &driver.TaskConfig{ID: "t2", DriverConfig: []byte(`{"script":"fatal"}`), Logs: driver.LogConfig{Disabled: true}})
	if retry, marked := errdefs.RetryableMark(err); err == nil || retry || !marked {
		t.Fatalf("a start that can never work: %v", err)
	}
}

func TestATaskOfAPluginBuiltForNomadCanBeUsed(t *testing.T) {
	d := hello(t, start(t, nomadConfig(t)))
	_, logs := helloTask(t, d, "t1", "trap 'echo usr1' USR1; echo up; while :; do sleep 0.01; done")
	eventually(t, "it runs", logHas(logs.StdoutPath, "up"))
	if s, err := d.InspectTask(t.Context(), "t1"); err != nil || s.State != driver.TaskRunning || s.Attributes["pid"] == "" {
		t.Fatalf("status %+v, %v", s, err)
	}
	if err := d.SignalTask(t.Context(), "t1", "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it got the signal", logHas(logs.StdoutPath, "usr1"))

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stats, err := d.TaskStats(ctx, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if s := <-stats; len(s) != 1 || s[0].TaskID != "t1" || s[0].CPU.Percent != 12.5 || s[0].Memory.RSS != 4096 {
		t.Fatalf("stats %+v", s)
	}
	var out bytes.Buffer
	r, err := d.ExecTask(ctx, "t1", driver.ExecOptions{Command: []string{"sh", "-c", "cat; exit 4"}}, driver.ExecStream{Stdin: strings.NewReader("typed"), Stdout: &out})
	if err != nil || r.ExitCode != 4 || out.String() != "typed" {
		t.Fatalf("exec %+v %q, %v", r, out.String(), err)
	}
	if err := d.StopTask(t.Context(), "t1", 5*time.Second, ""); err != nil {
		t.Fatal(err)
	}
	if r, err := d.WaitTask(t.Context(), "t1"); err != nil || r.Signal != int(syscall.SIGTERM) {
		t.Fatalf("result %+v, %v", r, err)
	}
}

func TestTasksOfAPluginBuiltForNomadOutliveItAndTheAgent(t *testing.T) {
	cfg := nomadConfig(t)
	h, err := pluginhost.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := hello(t, h)
	handle, logs := helloTask(t, d, "t1", "while :; do echo $$; sleep 0.01; done")
	before, err := d.InspectTask(t.Context(), "t1")
	if err != nil {
		t.Fatal(err)
	}
	pid := only(t, h).PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	same := func(h *pluginhost.Host) func() bool {
		return func() bool {
			s, err := hello(t, h).InspectTask(t.Context(), "t1")
			return err == nil && s.State == driver.TaskRunning && s.Attributes["pid"] == before.Attributes["pid"] && only(t, h).PID != pid
		}
	}
	eventually(t, "the next process of the plugin has the same task", same(h))

	h.Close(true)
	next := start(t, cfg)
	if st := only(t, next); !st.Reattached {
		t.Fatalf("the plugin's process was not found again: %+v", st)
	}
	d = hello(t, next)
	if err := d.RecoverTask(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next agent has it too", same(next))
	if err := os.Truncate(logs.StdoutPath+".0", 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its output still comes", logHas(logs.StdoutPath, before.Attributes["pid"]))
	if err := d.StopTask(t.Context(), "t1", time.Second, ""); err != nil {
		t.Fatal(err)
	}
	if err := d.DestroyTask(t.Context(), driver.TaskRef{ID: "t1"}, false); err != nil {
		t.Fatal(err)
	}
}

func TestThatADeviceIsNotThereIsLoggedOnceAndShown(t *testing.T) {
	cfg := config(t)
	if err := os.Symlink(nomadBinary, filepath.Join(cfg.Dir, "nomad-device-absent")); err != nil {
		t.Fatal(err)
	}
	cfg.AbsentInterval = 50 * time.Millisecond
	log := &lockedBuffer{}
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Info})
	h := start(t, cfg)
	looks, pid := 0, 0
	eventually(t, "several processes have looked", func() bool {
		if now := only(t, h).PID; now != 0 && now != pid {
			looks, pid = looks+1, now
		}
		return looks >= 4
	})
	eventually(t, "it is in the log", func() bool { return strings.Contains(log.String(), "no abacus on this machine") })
	if n := strings.Count(log.String(), "no abacus on this machine"); n != 1 {
		t.Errorf("%d processes wrote it %d times:\n%s", looks, n, log.String())
	}
	prints, _ := h.Devices()
	if len(prints) != 1 || prints[0].Problem != "the plugin found no device" {
		t.Errorf("fingerprints %+v", prints)
	}
}

// lockedBuffer is a log that is written and read at the same time.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
