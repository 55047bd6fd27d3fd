// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	"github.com/drover-project/drover/sdk/errdefs"
)

// cgroups creates a v2 cgroup and, if the machine has v1, a v1 cgroup, and returns
// their names in their hierarchies.
func cgroups(t *testing.T) (v2, v1 string) {
	t.Helper()
	groups, err := cgroup.FindCgroups()
	if err != nil || groups.Unified == "" || os.Geteuid() != 0 {
		t.Skipf("no cgroup can be made: %v", err)
	}
	name := fmt.Sprintf("drover-test-%d", os.Getpid())
	dirs := []string{filepath.Join(groups.Unified, name)}
	if _, err := os.Stat("/sys/fs/cgroup/cpuacct/tasks"); err == nil {
		dirs, v1 = append(dirs, "/sys/fs/cgroup/cpuacct/"+name), name
	}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
	}
	return name, v1
}

func TestATaskRunsInTheCgroupsThatItNames(t *testing.T) {
	v2, v1 := cgroups(t)
	const script = "sed -n 's/^0::/v2 /p; s/.*:cpuacct:/v1 /p' /proc/self/cgroup"
	config := map[string]any{"command": "/bin/sh", "args": []any{"-c", script}, "cgroup_v2_override": v2}
	want := "v2 /" + v2 + "\n"
	if v1 != "" {
		config["cgroup_v1_override"] = []any{map[string]any{"cpuacct": v1}}
		want = "v1 /" + v1 + "\n" + want
	}
	d, task := rawTask(t, config)
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if r, err := d.WaitTask(t.Context(), task.ID); err != nil || !r.Successful() {
		t.Fatalf("%+v, %v", r, err)
	}
	raw, err := os.ReadFile(task.Logs.StdoutPath + ".0")
	out := string(raw)
	if err != nil || out != want && v1 != "" || !strings.Contains(out, "v2 /"+v2+"\n") {
		t.Errorf("log %q, %v, want %q", out, err, want)
	}
	for config, says := range map[string]string{
		`"cgroup_v2_override": "no-such-group"`:                     "no-such-group",
		`"cgroup_v2_override": "../../../etc"`:                      "cgroup_v2_override",
		`"cgroup_v1_override": [{"cpuacct": "../../../proc"}]`:      "cgroup_v1_override",
		`"cgroup_v1_override": [{"no-such-controller": "a-group"}]`: "no-such-controller",
	} {
		task.ID, task.DriverConfig = "alloc/web/"+says, []byte(`{"command": "/bin/true", `+config+`}`)
		if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", config, err)
		}
	}
	task.ID = "alloc/web/1"
}

func TestWhatLeavesItsSessionEndsWithATaskThatNamesOnlyCgroupsOfVersion1(t *testing.T) {
	_, v1 := cgroups(t)
	if v1 == "" {
		t.Skip("this machine has no cgroups of version 1")
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	script := "setsid sh -c 'setsid sleep 1000 & echo $! > " + pidFile + "'; exec sed -n 's/.*:cpuacct://p' /proc/self/cgroup"
	d, task := rawTask(t, map[string]any{
		"command": "/bin/sh", "args": []any{"-c", script}, "cgroup_v1_override": []any{map[string]any{"cpuacct": "/" + v1}},
	})
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if r, err := d.WaitTask(t.Context(), task.ID); err != nil || !r.Successful() {
		t.Fatalf("%+v, %v", r, err)
	}
	if out, err := os.ReadFile(task.Logs.StdoutPath + ".0"); err != nil || string(out) != "/"+v1+"\n" {
		t.Errorf("log %q, %v", out, err)
	}
	raw, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d runs on", pid)
		}
	}
}
