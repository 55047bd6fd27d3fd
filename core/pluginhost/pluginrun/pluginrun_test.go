// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginrun_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/pluginrun"
	"github.com/drover-project/drover/sdk/errdefs"
)

func build(t *testing.T, sample string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sample")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/drover-project/drover/sdk/"+sample).CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	return path
}

func job(driver string, config map[string]any) *model.Job {
	return &model.Job{ID: "j", Name: "j", Namespace: "default", TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{
		{Name: "other", Driver: "raw_exec"}, {Name: "hello", Driver: driver, Config: config, KillTimeout: time.Minute},
	}}}}
}

// said collects events as "KIND TEXT".
type said struct{ all []string }

func (s *said) watch(e pluginrun.Event) { s.all = append(s.all, e.Kind+" "+e.Text) }

func (s *said) has(prefix string) bool {
	for _, one := range s.all {
		if strings.HasPrefix(one, prefix) {
			return true
		}
	}
	return false
}

func TestATaskRunsWithItsOutputAndExitCode(t *testing.T) {
	path, got := build(t, "driver/v1/drivertest/testdata/driver-shell"), &said{}
	result, err := pluginrun.Run(t.Context(), pluginrun.Options{Path: path, Watch: got.watch,
		Job: job("shell", map[string]any{"script": "echo hello; echo oops >&2; printf $NOMAD_TASK_NAME; exit 3"})})
	if err != nil || result.ExitCode != 3 {
		t.Fatalf("%+v, %v; %q", result, err, got.all)
	}
	for _, want := range []string{"plugin driver-shell 0.1.0", "fingerprint healthy", "started task \"hello\"", "stdout hello", "stderr oops", "exited exit code 3"} {
		if !got.has(want) {
			t.Errorf("%q is not among %q", want, got.all)
		}
	}
}

func TestAnInterruptStopsTheTask(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	got := &said{}
	result, err := pluginrun.Run(ctx, pluginrun.Options{Path: build(t, "driver/v1/drivertest/testdata/driver-shell"),
		Job: job("shell", map[string]any{"script": "echo up; exec sleep 600"}), Watch: func(e pluginrun.Event) {
			got.watch(e)
			if e.Kind == "stdout" {
				cancel()
			}
		}})
	if err != nil || result.Signal == 0 || !got.has("stopping") || !got.has("exited") {
		t.Errorf("%+v, %v; %q", result, err, got.all)
	}
}

func TestWhatOnlyAnAgentDoesIsNamed(t *testing.T) {
	got, j := &said{}, job("shell", map[string]any{"script": "exit 0"})
	j.TaskGroups[0].Tasks[1].Resources = &model.Resources{Cores: 2, MemoryMB: 64}
	j.TaskGroups[0].Networks = []*model.NetworkResource{{}}
	if _, err := pluginrun.Run(t.Context(), pluginrun.Options{Path: build(t, "driver/v1/drivertest/testdata/driver-shell"), Watch: got.watch, Job: j}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"warning resources.cores has no effect", "warning network has no effect", `warning resources are not enforced here, because driver "shell"`} {
		if !got.has(want) {
			t.Errorf("%q is not among %q", want, got.all)
		}
	}
	if got.has("warning template") {
		t.Errorf("it is warned of what the task does not have: %q", got.all)
	}
}

// victim is the variable that makes this test's process run a plugin and wait.
const victim = "DROVER_TEST_VICTIM"

func TestMain(m *testing.M) {
	if path := os.Getenv(victim); path != "" {
		_, err := pluginrun.Run(context.Background(), pluginrun.Options{Path: path, Job: job("shell", nil), Watch: func(e pluginrun.Event) {
			fmt.Println(e.Text)
			select {} // until it is killed
		}})
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestAPluginEndsWithWhoTriesItEvenIfThatIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with the one that started it")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victim+"="+build(t, "driver/v1/drivertest/testdata/driver-shell"))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, text, _ := strings.Cut(line, "pid "); text == "" {
		t.Fatalf("the process said %q", line)
	} else if _, err := fmt.Sscanf(text, "%d,", &pid); err != nil {
		t.Fatalf("the process said %q: %v", line, err)
	}
	stat := fmt.Sprintf("/proc/%d/stat", pid)
	if body, err := os.ReadFile(stat); err != nil || strings.Contains(string(body), ") Z ") {
		t.Fatalf("the plugin does not run: %s, %v", body, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		body, err := os.ReadFile(stat)
		if err != nil || strings.Contains(string(body), ") Z ") {
			return
		}
		if time.Now().After(end) {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // the test has failed in any case
			}
			t.Fatalf("the plugin still runs: %s", body)
		}
	}
}

func TestWhatCannotBeRunIsSaid(t *testing.T) {
	shell, devices := build(t, "driver/v1/drivertest/testdata/driver-shell"), build(t, "device/v1/devicetest/testdata/device-file")
	for name, c := range map[string]struct {
		opts  pluginrun.Options
		class func(error) bool
		says  string
	}{
		"a config that does not fit": {pluginrun.Options{Path: shell, Job: job("shell", map[string]any{"skript": "x"})}, errdefs.IsInvalidArgument, "skript"},
		"no task of its driver":      {pluginrun.Options{Path: shell, Job: job("docker", nil)}, errdefs.IsNotFound, "serves shell"},
		"a task of another driver":   {pluginrun.Options{Path: shell, Job: job("shell", nil), Task: "other"}, errdefs.IsInvalidArgument, `has the driver "raw_exec"`},
		"a plugin without a driver":  {pluginrun.Options{Path: devices, Job: job("shell", nil)}, errdefs.IsInvalidArgument, "serves no driver"},
	} {
		c.opts.Watch = func(pluginrun.Event) {}
		if _, err := pluginrun.Run(t.Context(), c.opts); err == nil || !c.class(err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
