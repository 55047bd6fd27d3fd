// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/test/e2e/harness"
)

const foreignJob = `
job "foreign" {
  type = "service"
  group "g" {
    update {
      min_healthy_time = "100ms"
    }
    task "t" {
      driver = "hello"
      config {
        script = "echo pid $$ $1 in $NOMAD_JOB_NAME; while :; do sleep 0.05; done"
        args   = ["from ${NOMAD_TASK_NAME}"]
      }
    }
  }
}
`

// The plugin implements Nomad's wire protocol and uses none of our code.
func TestAPluginBuiltForNomadRunsAJobOverKillsOfAgentAndPlugin(t *testing.T) {
	a := newAgent(t)
	plugin := filepath.Join(a.Dir, "hello-plugin")
	harness.Build(t, plugin, "core/pluginhost/testdata/nomadplugin")
	a.Plugin("nomad-hello", "exec "+plugin)
	a.Configure("plugin \"nomad-hello\" {\n  config { shell = \"/bin/sh\" }\n}\n")
	a.start()
	a.Run(foreignJob)
	id := a.Await("foreign", "running", 1)[0].ID
	log := ""
	a.Eventually(10*time.Second, "its output is in its log", func() bool {
		log, _ = a.CLI("alloc", "logs", id)
		return strings.Contains(log, "from t in foreign")
	})
	var pids []int
	a.Eventually(harness.Patience, "the task is one process", func() bool { // the shell's child has the same command line until it executes the program
		pids = a.Processes("echo pid")
		return len(pids) == 1
	})

	a.Kill()
	for _, p := range a.Processes("hello-plugin") {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
	if !harness.Running(pids[0]) {
		t.Fatal("the task died with its plugin and agent")
	}
	a.start()
	a.Await("foreign", "running", 1)
	a.Must("job", "stop", "-detach", "foreign")
	a.Eventually(20*time.Second, "its process ends", func() bool { return !harness.Running(pids[0]) })
}
