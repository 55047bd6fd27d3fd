// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/internal/testkit/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// binary is the built testplugin.
var binary string

func TestMain(m *testing.M) {
	if dir := os.Getenv("PLUGINHOST_TEST_AGENT"); dir != "" {
		agent(dir)
		return
	}
	if dir := os.Getenv("PLUGINHOST_TEST_UPGRADER"); dir != "" {
		upgrading(dir, strings.Split(os.Getenv("PLUGINHOST_TEST_SOURCES"), ":"))
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "-collect" {
		collect(os.Args[2])
		return
	}
	dir, err := os.MkdirTemp("", "pluginhost")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "testplugin")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "./testdata/testplugin").CombinedOutput()
	if err != nil {
		panic(string(out))
	}
	nomadBinary = filepath.Join(dir, "nomadplugin")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", nomadBinary, "./testdata/nomadplugin").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	if code == 0 {
		// The log collector ends by itself when it has been idle; until then it is waited for.
		if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/drover-project/drover/core/pluginhost/logpipe.(*Client).launch.func1")); err != nil {
			code = 1
			println(err.Error())
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// memory is a Store.
type memory struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (s *memory) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.m[key]; ok {
		return v, nil
	}
	return nil, errdefs.NotFoundf("key %q", key)
}

func (s *memory) Put(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[key] = value
	return nil
}

func (s *memory) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, key)
	return nil
}

// patience is how long a test waits for what has to come, on a machine with much to
// do and under the race detector. It ends a test that hangs.
const patience = time.Minute

func config(t *testing.T, plugins ...string) pluginhost.Config {
	t.Helper()
	dir := t.TempDir()
	for _, p := range plugins {
		if err := os.Symlink(binary, filepath.Join(dir, p)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := pluginhost.Config{Dir: dir, StateDir: t.TempDir(), Store: &memory{m: map[string][]byte{}}, StartTimeout: patience}
	cfg.Pings.Interval, cfg.Pings.Timeout, cfg.Pings.Failures = 50*time.Millisecond, 5*time.Second, 2
	cfg.BackoffMin, cfg.BackoffMax = 10*time.Millisecond, 50*time.Millisecond
	return cfg
}

// kill sends a signal to a plugin's process. A plugin at rest has none, and a signal to process 0
// would reach these tests.
func kill(pid int, signal syscall.Signal) error {
	if pid <= 0 {
		return errors.New("the plugin has no process")
	}
	return syscall.Kill(pid, signal)
}

func start(t *testing.T, cfg pluginhost.Config) *pluginhost.Host {
	t.Helper()
	h, err := pluginhost.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(false) })
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

func shell(t *testing.T, h *pluginhost.Host) driver.Driver {
	t.Helper()
	d, err := h.Driver("shell")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func startTask(t *testing.T, d driver.Driver, id, script string) *driver.Handle {
	t.Helper()
	dir := t.TempDir()
	handle, _, err := d.StartTask(t.Context(), &driver.TaskConfig{
		ID: id, Name: "web", TaskDir: dir, DriverConfig: []byte(`{"script":"` + script + `"}`),
		Env:  map[string]string{"PATH": os.Getenv("PATH")},
		Logs: driver.LogConfig{StdoutPath: filepath.Join(dir, "web.stdout"), StderrPath: filepath.Join(dir, "web.stderr")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.DestroyTask(context.Background(), driver.TaskRef{ID: id}, true) })
	return handle
}

func only(t *testing.T, h *pluginhost.Host) pluginhost.PluginStatus {
	t.Helper()
	all := h.Status()
	if len(all) != 1 {
		t.Fatalf("%d plugins, want 1", len(all))
	}
	return all[0]
}

func TestAPluginServesItsDriversWithFingerprintsAndSchemas(t *testing.T) {
	h := start(t, config(t, "good"))
	st := only(t, h)
	if st.State != pluginhost.StateRunning || st.PID == 0 || st.Version != "1.2.3" || strings.Join(st.Drivers, " ") != "shell shell2" {
		t.Fatalf("status %+v", st)
	}
	prints, _ := h.Fingerprints()
	if len(prints) != 2 || prints[0].Name != "shell" || prints[0].Health != driver.HealthHealthy ||
		prints[0].Attributes["driver.shell"] != "1" || len(prints[0].TaskConfigSchema.Attributes) != 1 {
		t.Fatalf("fingerprints %+v", prints)
	}
	d := shell(t, h)
	startTask(t, d, "t1", "exit 3")
	r, err := d.WaitTask(t.Context(), "t1")
	if err != nil || r.ExitCode != 3 {
		t.Fatalf("result %+v, %v", r, err)
	}
	if _, err := d.InspectTask(t.Context(), "nobody"); !errdefs.IsNotFound(err) {
		t.Fatalf("the error class did not survive the wire: %v", err)
	}
}

func TestPluginsThatCannotBeUsedSayWhyAndStopNobodyElse(t *testing.T) {
	cfg := config(t, "exits", "wrong-version", "other-kind", "good")
	text := filepath.Join(cfg.Dir, "garbage")
	if err := os.WriteFile(text, []byte("\x7fELF no"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "README"), []byte("not executable"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := start(t, cfg)
	want := map[string]struct {
		class errdefs.Class
		text  string
	}{
		"exits":         {errdefs.Unavailable, "ended with exit code 7 before the handshake; run it by hand to see why; it wrote: no such daemon"},
		"wrong-version": {errdefs.FailedPrecondition, "its handshake does not fit this agent, which speaks plugin protocol 1"},
		"other-kind":    {errdefs.FailedPrecondition, "serves [teapot v3], and this agent knows [driver v1"},
		"garbage":       {errdefs.FailedPrecondition, "cannot be executed"},
	}
	eventually(t, "every bad plugin has its error", func() bool {
		for _, st := range h.Status() {
			if st.Name != "good" && st.LastError == nil {
				return false
			}
		}
		return true
	})
	seen := 0
	for _, st := range h.Status() {
		w, bad := want[st.Name]
		if !bad {
			if st.Name != "good" || st.State != pluginhost.StateRunning {
				t.Errorf("unexpected %+v", st)
			}
			continue
		}
		seen++
		if errdefs.ClassOf(st.LastError) != w.class || !strings.Contains(st.LastError.Error(), w.text) ||
			!strings.Contains(st.LastError.Error(), filepath.Join(cfg.Dir, st.Name)) {
			t.Errorf("%s: class %q, error %v", st.Name, errdefs.ClassOf(st.LastError), st.LastError)
		}
	}
	if seen != len(want) {
		t.Errorf("%d bad plugins in the status, want %d", seen, len(want))
	}
	shell(t, h)
	if _, err := h.Driver("docker"); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "no such daemon") {
		t.Errorf("a missing driver must name the plugins that failed: %v", err)
	}
}

func TestAPluginThatHangsAtItsStartIsGivenUp(t *testing.T) {
	cfg := config(t, "hangs")
	cfg.StartTimeout = time.Second
	h := start(t, cfg)
	eventually(t, "it has its error", func() bool { return only(t, h).LastError != nil })
	if err := only(t, h).LastError; !errdefs.IsDeadlineExceeded(err) || !strings.Contains(err.Error(), "no handshake within 1s") || !strings.Contains(err.Error(), filepath.Join(cfg.Dir, "hangs")) {
		t.Errorf("class %q, error %v", errdefs.ClassOf(err), err)
	}
}

func TestACrashedPluginIsReplacedAndItsTasksGoOn(t *testing.T) {
	h := start(t, config(t, "good"))
	d := shell(t, h)
	gate := filepath.Join(t.TempDir(), "gate")
	startTask(t, d, "t1", "until [ -e "+gate+" ]; do sleep 0.02; done; exit 5")
	restarted := make(chan struct{}, 1)
	defer h.OnRestart("shell", func() { restarted <- struct{}{} })()
	type outcome struct {
		r   driver.ExitResult
		err error
	}
	waited := make(chan outcome, 1)
	go func() {
		r, err := d.WaitTask(t.Context(), "t1")
		waited <- outcome{r, err}
	}()
	before := only(t, h).PID
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-restarted:
	case <-time.After(patience):
		t.Fatal("no restart")
	}
	status, err := d.InspectTask(t.Context(), "t1")
	if err != nil || status.State != driver.TaskRunning {
		t.Fatalf("after the restart: %+v, %v", status, err)
	}
	if st := only(t, h); st.PID == before || st.Restarts != 1 || st.State != pluginhost.StateRunning {
		t.Fatalf("status %+v", st)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o := <-waited; o.err != nil || o.r.ExitCode != 5 {
		t.Fatalf("the wait over the restart gave %+v, %v", o.r, o.err)
	}
}

func TestAHungPluginIsKilledAndReplaced(t *testing.T) {
	cfg := config(t, "good")
	cfg.Pings.Timeout = 500 * time.Millisecond
	h := start(t, cfg)
	d := shell(t, h)
	startTask(t, d, "t1", "sleep 1000")
	before := only(t, h).PID
	if err := syscall.Kill(before, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process", func() bool {
		st := only(t, h)
		return st.State == pluginhost.StateRunning && st.PID != before
	})
	if err := syscall.Kill(before, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the hung process is still there: %v", err)
	}
	status, err := d.InspectTask(t.Context(), "t1")
	if err != nil || status.State != driver.TaskRunning {
		t.Fatalf("the task: %+v, %v", status, err)
	}
}

func TestACallUnderWayWhenThePluginDiesIsUnavailable(t *testing.T) {
	h := start(t, config(t, "good"))
	d := shell(t, h)
	startTask(t, d, "t1", "trap : TERM; while :; do sleep 0.05; done")
	stopped := make(chan error, 1)
	go func() { stopped <- d.StopTask(t.Context(), "t1", time.Minute, "SIGUSR1") }()
	stats, err := d.TaskStats(t.Context(), 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	<-stats
	before := only(t, h).PID
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// SIGUSR1 may have ended the script before the kill: then there is no error.
	if err := <-stopped; err != nil && !errdefs.IsUnavailable(err) {
		t.Fatalf("class %s: %v", errdefs.ClassOf(err), err)
	}
	eventually(t, "samples of the new process", func() bool {
		<-stats
		return only(t, h).PID != before && only(t, h).State == pluginhost.StateRunning
	})
}

func TestTheNextAgentReattachesToPluginsThatWereLeft(t *testing.T) {
	cfg := config(t, "good")
	first := start(t, cfg)
	handle := startTask(t, shell(t, first), "t1", "sleep 1000")
	pid := only(t, first).PID
	first.Close(true)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the plugin did not survive: %v", err)
	}

	second := start(t, cfg)
	st := only(t, second)
	if st.PID != pid || !st.Reattached {
		t.Fatalf("status %+v, want pid %d reattached", st, pid)
	}
	d := shell(t, second)
	if err := d.RecoverTask(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	if err := d.StopTask(t.Context(), "t1", 5*time.Second, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the death of a reattached plugin is noticed", func() bool {
		st := only(t, second)
		return st.PID != pid && st.State == pluginhost.StateRunning
	})
}

func TestALeftPluginThatHangsOrIsGoneOrOfAnotherVersionIsReplaced(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, pluginhost.Config, int){
		"hangs": func(t *testing.T, _ pluginhost.Config, pid int) {
			if err := process.Stop(pid); err != nil {
				t.Fatal(err)
			}
		},
		"gone": func(t *testing.T, _ pluginhost.Config, pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) },
		"file replaced": func(t *testing.T, cfg pluginhost.Config, _ int) {
			body, err := os.ReadFile(binary)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(cfg.Dir, "good")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(body, 0), 0o755); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, "good")
			first := start(t, cfg)
			pid := only(t, first).PID
			first.Close(true)
			spoil(t, cfg, pid)
			if name == "hangs" {
				cfg.StartTimeout = 5 * time.Second // for its answer; another one has as long to start
			}
			second := start(t, cfg)
			st := only(t, second)
			if st.State != pluginhost.StateRunning || st.Reattached || st.PID == pid {
				t.Fatalf("status %+v", st)
			}
			eventually(t, "the old process is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
		})
	}
}

func TestCloseEndsThePluginsButNotTheirTasks(t *testing.T) {
	h := start(t, config(t, "good"))
	d := shell(t, h)
	startTask(t, d, "t1", "sleep 1000")
	status, err := d.InspectTask(t.Context(), "t1")
	if err != nil {
		t.Fatal(err)
	}
	pid := only(t, h).PID
	h.Close(false)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the plugin still runs: %v", err)
	}
	out, err := exec.Command("kill", "--", status.Attributes["pid"]).CombinedOutput()
	if err != nil {
		t.Errorf("the task is gone: %s", out)
	}
	out, err = exec.Command("kill", "-9", "--", "-"+status.Attributes["pid"]).CombinedOutput()
	if err != nil {
		t.Errorf("kill the task: %s", out)
	}
	if _, err := d.WaitTask(t.Context(), "t1"); !errdefs.IsUnavailable(err) {
		t.Errorf("a wait on a closed host: %v", err)
	}
}

func TestAWrongDriverConfigMakesTheDriverUnhealthyWithTheReason(t *testing.T) {
	cfg := config(t, "good")
	cfg.DriverConfig = map[string]map[string]any{"shell": {"greetin": "x"}, "shell2": {"greeting": "ho"}}
	h := start(t, cfg)
	prints, _ := h.Fingerprints()
	if prints[0].Health != driver.HealthUnhealthy || !strings.Contains(prints[0].HealthDescription, `did you mean "greeting"?`) {
		t.Errorf("shell: %+v", prints[0])
	}
	if prints[1].Health != driver.HealthHealthy {
		t.Errorf("shell2: %+v", prints[1])
	}
}

func TestAPluginThatEveryoneMayReplaceIsRefused(t *testing.T) {
	cfg := config(t)
	body, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.Dir, "good")
	if err := os.WriteFile(path, body, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	h := start(t, cfg)
	if st := only(t, h); !errdefs.IsPermissionDenied(st.LastError) {
		t.Fatalf("status %+v", st)
	}
}

func TestTwoPluginsOfOneDriverNameAreToldApart(t *testing.T) {
	h := start(t, config(t, "one", "two"))
	failed := 0
	for _, st := range h.Status() {
		if errdefs.IsAlreadyExists(st.LastError) {
			failed++
		}
	}
	if failed != 1 {
		t.Fatalf("status %+v", h.Status())
	}
	shell(t, h)
}

func TestPluginsGetOnlyTheEnvironmentTheyNeed(t *testing.T) {
	t.Setenv("SECRET_OF_THE_AGENT", "x")
	h := start(t, config(t, "good"))
	body, err := os.ReadFile("/proc/" + strconv.Itoa(only(t, h).PID) + "/environ")
	if err != nil {
		t.Skip("no /proc here")
	}
	if strings.Contains(string(body), "SECRET_OF_THE_AGENT") {
		t.Fatal("the agent's secret is in the plugin's environment")
	}
	if !strings.Contains(string(body), "PATH=") {
		t.Fatal("PATH is not")
	}
}
