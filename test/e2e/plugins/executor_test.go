// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/test/e2e/harness"
)

const executorJob = `
job "executor" {
  type = "service"
  group "g" {
    task "t" {
      driver = "hello"
      config {
        script = "echo up; sleep 1000 & wait"
      }
      logs {
        disabled = true
      }
    }
  }
}
`

// TestPluginsBuiltForNomadServeTasksOnCgroupVersion2 runs what core/agent tests with plugins
// that speak only Nomad's protocol, an executor, a driver without one, one whose tasks have a
// root file system, and a device plugin, in a virtual machine that has no cgroups of version 1.
func TestPluginsBuiltForNomadServeTasksOnCgroupVersion2(t *testing.T) {
	t.Parallel() // it waits for a virtual machine
	if testing.Short() {
		t.Skip("it starts a virtual machine")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../../plugins/driver-exec/vmtest/run.sh", "-test.v", "-test.run", "BuiltForNomad|Executor|ThatLostItsState|AChrootDriver")
	cmd.Env = append(os.Environ(), "PACKAGE=core/agent", "FOREIGN=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // the machine as well
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	const missing = 77
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == missing {
		t.Skip(strings.TrimSpace(string(out)))
	}
	if err != nil || strings.Contains(string(out), "--- SKIP") || strings.Count(string(out), "--- PASS") < 6 {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The plugin starts each task by an executor, which enters the cgroups that hosts of
// Nomad's protocol make.
func TestTasksOfExecutorsStayInTheirCgroupsOverKillsOfAgentAndPlugin(t *testing.T) {
	if _, err := os.Stat("/sys/fs/cgroup/freezer/tasks"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and cgroups of version 1; core/agent has the test for version 2")
	}
	a := newAgent(t)
	plugin := filepath.Join(a.Dir, "hello-executor")
	harness.Build(t, plugin, "core/pluginhost/testdata/nomadplugin")
	a.Plugin("nomad-executor", "exec "+plugin)
	a.start()
	a.Run(executorJob)
	id := a.Await("executor", "running", 1)[0].ID
	group := "/sys/fs/cgroup/freezer/nomad/" + id + ".t"
	members := func() string {
		raw, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		return strings.Join(strings.Fields(string(raw)), " ")
	}
	before := members()
	if len(strings.Fields(before)) < 2 {
		t.Fatalf("%q are in the task's cgroup", before)
	}
	a.Kill()
	for _, p := range a.PluginProcesses("hello-executor") {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
	if now := members(); now != before {
		t.Fatalf("after the kills %q are in the cgroup, and %q before", now, before)
	}
	a.start()
	a.Await("executor", "running", 1)
	if now := members(); now != before {
		t.Errorf("in the next agent %q are in the cgroup, and %q before", now, before)
	}
	a.Must("job", "stop", "-detach", "executor")
	a.Eventually(harness.Patience, "the cgroup is gone with its processes", func() bool {
		_, err := os.Stat(group)
		return os.IsNotExist(err)
	})
	for _, pid := range strings.Fields(before) {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("process %s is left", pid)
		}
	}
}
