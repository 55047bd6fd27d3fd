// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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
	plugin := filepath.Join(a.dir, "hello-plugin")
	build := exec.Command("go", "build", "-o", plugin, "../../core/pluginhost/testdata/nomadplugin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	a.plugin("nomad-hello", "exec "+plugin)
	a.configure("plugin \"nomad-hello\" {\n  config { shell = \"/bin/sh\" }\n}\n")
	a.start()
	a.run(foreignJob)
	id := a.await("foreign", "running", 1)[0].ID
	log := ""
	a.eventually(10*time.Second, "its output is in its log", func() bool {
		log, _ = a.cli("alloc", "logs", id)
		return strings.Contains(log, "from t in foreign")
	})
	var pids []int
	a.eventually(patience, "the task is one process", func() bool { // the shell's child has the same command line until it executes the program
		pids = a.processes("echo pid")
		return len(pids) == 1
	})

	a.kill()
	for _, p := range a.processes("hello-plugin") {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
	if !running(pids[0]) {
		t.Fatal("the task died with its plugin and agent")
	}
	a.start()
	a.await("foreign", "running", 1)
	a.must("job", "stop", "-detach", "foreign")
	a.eventually(20*time.Second, "its process ends", func() bool { return !running(pids[0]) })
}
