// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package pluginhost_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
)

// leaving is a task whose start leaves two processes behind and fails.
func leaving(t *testing.T, alloc string, args string) *driver.TaskConfig {
	dir := t.TempDir()
	return &driver.TaskConfig{
		ID: alloc + "/web/1", Name: "web", AllocID: alloc, AllocDir: dir, TaskDir: filepath.Join(dir, "web"),
		DriverConfig: []byte(`{"script":"leaves","args":[` + args + `]}`), Logs: driver.LogConfig{Disabled: true},
		Env: map[string]string{"PATH": os.Getenv("PATH"), "NOMAD_ALLOC_ID": alloc, "NOMAD_TASK_NAME": "web"},
	}
}

// processesOf counts those that have the variable or name the text.
func processesOf(t *testing.T, variable, text string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		env, _ := os.ReadFile(filepath.Join(dir, "environ")) // it may have ended
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(env, []byte(variable)) || bytes.Contains(args, []byte(text)) {
			n++
		}
	}
	return n
}

func TestAStartThatFailedLeavesNoProcessBehind(t *testing.T) {
	d := hello(t, start(t, nomadConfig(t)))
	other := exec.Command("/bin/sleep", "1000") // a task of the same name in another alloc
	other.Env = []string{"NOMAD_ALLOC_ID=other", "NOMAD_TASK_NAME=web"}
	task := leaving(t, "a1b2c3-failed", "")
	before := exec.Command("/bin/sleep", "1000") // what an earlier run of the task left on purpose
	before.Env = []string{"NOMAD_ALLOC_ID=" + task.AllocID, "NOMAD_TASK_NAME=web"}
	for _, cmd := range []*exec.Cmd{other, before} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	<-time.After(100 * time.Millisecond) // the begin of processes is told in hundredths of a second
	_, _, err := d.StartTask(t.Context(), task)
	if err == nil || !strings.Contains(err.Error(), "cgroup.procs") {
		t.Fatalf("the start says %v", err)
	}
	if n := processesOf(t, "NOMAD_ALLOC_ID="+task.AllocID, task.TaskDir); n != 1 {
		t.Errorf("%d processes of the task are there, not only that of before", n)
	}
	for _, cmd := range []*exec.Cmd{other, before} {
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("a process that is not of the start was ended: %v", err)
		}
	}
}

func TestAStartThatWasInterruptedLeavesNoProcessBehind(t *testing.T) {
	d := hello(t, start(t, nomadConfig(t)))
	gate := filepath.Join(t.TempDir(), "gate")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	task := leaving(t, "a1b2c3-interrupted", `"`+gate+`"`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := d.StartTask(ctx, task)
		ended <- err
	}()
	eventually(t, "the driver starts the task", func() bool {
		_, err := os.Stat(gate + ".hangs")
		return err == nil
	})
	cancel()
	// The driver does not heed that: it goes on, and fails later.
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Fatal("the start succeeded")
	}
	if n := processesOf(t, "NOMAD_ALLOC_ID="+task.AllocID, task.TaskDir); n != 0 {
		t.Errorf("%d processes of the task are left", n)
	}
}
