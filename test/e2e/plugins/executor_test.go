// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
