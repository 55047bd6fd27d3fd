// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestMain(m *testing.M) {
	supervisor.Main()
	if os.Getenv(probeEnv) != "" {
		probe()
		return
	}
	if os.Getenv("DRIVEREXEC_TEST_PLUGIN") != "" {
		if err := driverexec.Main(); err != nil {
			panic(err)
		}
		return
	}
	if err := os.Setenv("DROVER_SUPERVISOR_IDLE", "1s"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestRawExecKeepsTheContract(t *testing.T) {
	o := contract(t, "raw_exec", driverexec.NewRawExec)
	o.Config = map[string]any{"enabled": true}
	o.Script = shell
	drivertest.Run(t, o)
}

func TestATaskThatNamesAUserRunsAsItAndOpensItsOutputAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	d, task := rawTask(t, map[string]any{"command": "/bin/sh", "args": []any{"-c", "id -un > /dev/stdout"}})
	task.User = "nobody"
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if r, err := d.WaitTask(t.Context(), task.ID); err != nil || !r.Successful() {
		t.Fatalf("%+v, %v", r, err)
	}
	if out, err := os.ReadFile(task.Logs.StdoutPath + ".0"); err != nil || string(out) != "nobody\n" {
		t.Fatalf("log %q, %v", out, err)
	}
}

func TestADeniedUserIsRefused(t *testing.T) {
	d, task := rawTask(t, map[string]any{"command": "/bin/true"})
	for _, denied := range []string{fmt.Sprintf(`"denied_host_uids": "%d,70000-70010"`, os.Geteuid()), fmt.Sprintf(`"denied_host_gids": "%d"`, os.Getegid())} {
		if err := d.SetConfig(t.Context(), []byte(`{"enabled": true, `+denied+`}`)); err != nil {
			t.Fatal(err)
		}
		_, _, err := d.StartTask(t.Context(), task)
		if name, _, _ := strings.Cut(denied[1:], `"`); !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", denied, err)
		}
	}
	for _, bad := range []string{`{"denied_host_uids": "10-5"}`, `{"denied_host_gids": "ten"}`} {
		if err := d.SetConfig(t.Context(), []byte(bad)); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestADisabledDriverIsUndetectedAndStartsNothing(t *testing.T) {
	d, task := rawTask(t, map[string]any{"command": "/bin/true"})
	prints, err := d.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := <-prints; f.Health != driver.HealthHealthy || f.Attributes["driver.raw_exec"] != "1" {
		t.Fatalf("enabled: %+v", f)
	}
	if err := d.SetConfig(t.Context(), []byte(`{"enabled": false}`)); err != nil {
		t.Fatal(err)
	}
	if f := <-prints; f.Health != driver.HealthUndetected || len(f.Attributes) != 0 {
		t.Fatalf("disabled: %+v", f)
	}
	if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("start: %v", err)
	}
}

func TestCommandsAreFoundInTheTaskDirectoryAndMissingOnesNamed(t *testing.T) {
	d, task := rawTask(t, map[string]any{"command": "mine"})
	_, _, err := d.StartTask(t.Context(), task)
	if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), `"mine"`) {
		t.Fatalf("a missing command: %v", err)
	}
	if err := os.WriteFile(filepath.Join(task.TaskDir, "local", "mine"), []byte("#!/bin/sh\nexit 6\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if r, err := d.WaitTask(t.Context(), task.ID); err != nil || r.ExitCode != 6 {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestDeniedVariablesAndOOMScoreReachTheTask(t *testing.T) {
	d, task := rawTask(t, map[string]any{
		"command": "/bin/sh", "oom_score_adj": 321, "denied_envvars": []any{"SECRET_*"},
		// The score is set after the process exists.
		"args": []any{"-c", "until grep -x 321 /proc/self/oom_score_adj; do :; done; env | grep -c 'SECRET\\|TOKEN\\|PLAIN'"},
	})
	if err := d.SetConfig(t.Context(), []byte(`{"enabled": true, "denied_envvars": ["TOKEN", "NOT?"]}`)); err != nil {
		t.Fatal(err)
	}
	task.Env["SECRET_KEY"], task.Env["TOKEN"], task.Env["PLAIN"] = "x", "x", "x"
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if _, err := d.WaitTask(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	if out, err := os.ReadFile(task.Logs.StdoutPath + ".0"); err != nil || string(out) != "321\n1\n" {
		t.Fatalf("log %q, %v", out, err)
	}
	task.DriverConfig = []byte(`{"command": "/bin/true", "denied_envvars": ["SECRET_["]}`)
	if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), `config.denied_envvars[0]: "SECRET_["`) {
		t.Errorf("a pattern that is none: %v", err)
	}
	if err := d.SetConfig(t.Context(), []byte(`{"enabled": true, "denied_envvars": ["["]}`)); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a pattern that is none, of the agent: %v", err)
	}
	for _, score := range []int{-1, 1001} {
		task.DriverConfig = fmt.Appendf(nil, `{"command": "/bin/true", "oom_score_adj": %d}`, score)
		if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "oom_score_adj") {
			t.Errorf("a score of %d: %v", score, err)
		}
	}
}

func TestCommandsRunInTheirDirectoryWithTheirArguments(t *testing.T) {
	d, task := rawTask(t, map[string]any{"command": "/bin/sh", "args": []any{"-c", `pwd; printf '%s|' "$@"`, "x", "a b", "", "*"}, "work_dir": "/usr/bin"})
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if r, err := d.WaitTask(t.Context(), task.ID); err != nil || !r.Successful() {
		t.Fatalf("%+v, %v", r, err)
	}
	if out, err := os.ReadFile(task.Logs.StdoutPath + ".0"); err != nil || string(out) != "/usr/bin\na b||*|" {
		t.Fatalf("log %q, %v", out, err)
	}
	task.ID, task.KillSignal = "alloc/web/2", "SIGFOO"
	if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), `kill_signal: signal "SIGFOO" is unknown`) {
		t.Errorf("a kill_signal that is none: %v", err)
	}
	task.KillSignal = ""
	for dir, says := range map[string]string{"bin": "absolute", "/no/such/place": "/no/such/place"} {
		task.ID, task.DriverConfig = "alloc/web/"+says, fmt.Appendf(nil, `{"command": "/bin/true", "work_dir": %q}`, dir)
		if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for command, want := range map[string]string{"no-such-command": "command_not_found", "/no/such/place": "command_not_found", "/etc": ""} {
		task.ID, task.DriverConfig = "alloc/web/"+command, fmt.Appendf(nil, `{"command": %q}`, command)
		if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsInvalidArgument(err) || errdefs.ReasonOf(err) != want {
			t.Errorf("%s: reason %q: %v", command, errdefs.ReasonOf(err), err)
		}
	}
	task.ID = "alloc/web/1"
}

func TestARawTaskAndCommandsBesideItAreInTheGroupsNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can join a network namespace")
	}
	file, name := network(t)
	d, task := rawTask(t, map[string]any{"command": "/bin/sh", "args": []any{"-c", "readlink /proc/self/ns/net; exec sleep 1000"}})
	task.Network, task.Resources.Cores = &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: file}, []int{0}
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	look := "until [ -s " + task.Logs.StdoutPath + ".0 ]; do :; done; readlink /proc/self/ns/net"
	for _, tty := range []bool{false, true} {
		var out bytes.Buffer
		r, err := d.ExecTask(t.Context(), task.ID, driver.ExecOptions{Command: []string{"sh", "-c", look}, TTY: tty}, driver.ExecStream{Stdout: &out})
		if err != nil || !r.Successful() || strings.TrimSpace(out.String()) != name {
			t.Errorf("a command, terminal %v: %+v, %v, %q, want %s", tty, r, err, out.String(), name)
		}
	}
	if err := d.StopTask(t.Context(), task.ID, 10*time.Second, ""); err != nil {
		t.Fatal(err)
	}
	if out, err := os.ReadFile(task.Logs.StdoutPath + ".0"); err != nil || string(out) != name+"\n" {
		t.Errorf("log %q, %v, want %s", out, err, name)
	}
	bad := *task
	bad.ID, bad.Network = "alloc/web/2", &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: "/no/such/namespace"}
	if _, _, err := d.StartTask(t.Context(), &bad); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "/no/such/namespace") {
		t.Errorf("a namespace that does not exist: class %s, %v", errdefs.ClassOf(err), err)
	}
}

// rawTask returns an enabled driver with its own supervisor, and a task.
func rawTask(t *testing.T, config map[string]any) (*driverexec.RawExec, *driver.TaskConfig) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rawexec") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d := driverexec.NewRawExec(filepath.Join(dir, "state"))
	logs, local := filepath.Join(dir, "alloc", "logs"), filepath.Join(dir, "web", "local")
	for _, sub := range []string{logs, local} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	body, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	task := &driver.TaskConfig{
		ID: "alloc/web/1", Name: "web", DriverConfig: body, Env: map[string]string{"PATH": "/usr/bin:/bin"},
		AllocDir: dir, TaskDir: filepath.Dir(local),
		Logs: driver.LogConfig{StdoutPath: filepath.Join(logs, "web.stdout"), StderrPath: filepath.Join(logs, "web.stderr"), MaxFiles: 2, MaxFileSizeMB: 1},
	}
	if err := d.SetConfig(t.Context(), []byte(`{"enabled": true}`)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		err := d.DestroyTask(ctx, task.Ref(), true)
		c, openErr := supervisor.Open(ctx, filepath.Join(dir, "state"))
		if openErr == nil {
			err = errors.Join(err, c.Shutdown(ctx), c.Close())
		}
		if err := errors.Join(err, openErr, d.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return d, task
}

func TestATaskWithCoresOfItsOwnRunsOnThemOnly(t *testing.T) {
	d, task := rawTask(t, map[string]any{"command": "/bin/grep", "args": []any{"Cpus_allowed_list", "/proc/self/status"}})
	task.Resources.Cores = []int{0}
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if _, err := d.WaitTask(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	if out, err := os.ReadFile(task.Logs.StdoutPath + ".0"); err != nil || string(out) != "Cpus_allowed_list:\t0\n" {
		t.Fatalf("log %q, %v", out, err)
	}
	task.ID, task.Resources.Cores = "alloc/web/2", []int{1000}
	if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "cores") {
		t.Fatalf("a core that does not exist: %v", err)
	}
	task.ID = "alloc/web/1"
}

func TestTheUserIsToldOfOutputThatCannotBeKept(t *testing.T) {
	t.Parallel() // it waits for a check that happens every 5 s
	d, task := rawTask(t, map[string]any{"command": "/bin/sh", "args": []any{"-c", "head -c 1000000 /dev/zero; sleep 1000"}})
	logs := filepath.Dir(task.Logs.StdoutPath)
	if err := syscall.Mount("tmpfs", logs, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a full disk needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(logs, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := d.TaskEvents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	e := <-events
	if e.TaskID != task.ID || !strings.Contains(e.Message, "no space left") {
		t.Fatalf("event %+v", e)
	}
}

func TestAConfigOfRawExecIsRefusedBeforeTheStartWithAllThatIsWrong(t *testing.T) {
	d := driverexec.NewRawExec(t.TempDir())
	found, err := d.ValidateTask(t.Context(), &driver.TaskDraft{DriverConfig: []byte(`{"command": "true", "denied_envvars": ["A", "SECRET_["], "oom_score_adj": 1001, "work_dir": "bin"}`)})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range found {
		paths = append(paths, f.Path)
		if f.Severity != driver.SeverityError || f.Summary == "" || strings.HasPrefix(f.Summary, "config.") {
			t.Errorf("%+v", f)
		}
	}
	if got := strings.Join(paths, " "); got != "config.denied_envvars[1] config.oom_score_adj config.work_dir" {
		t.Errorf("%s: %+v", got, found)
	}
	// Whether the machine has a directory, only the start can say.
	if found, err := d.ValidateTask(t.Context(), &driver.TaskDraft{DriverConfig: []byte(`{"command": "/no/such", "work_dir": "/no/such"}`)}); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
