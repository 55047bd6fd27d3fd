// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/e2e/harness"
)

const variableJob = `
job "app" {
  type = "service"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $$ > local/pid; while :; do sleep 0.1; done"]
      }
      template {
        destination = "secrets/config"
        change_mode = "noop"
        data        = <<-EOT
          {{ with nomadVar "nomad/jobs/app" }}password={{ .password }}{{ end }}
          {{ range nomadVarList "nomad/jobs" }}{{ .Path }} {{ end }}
        EOT
      }
    }
  }
}
`

func TestTemplatesFollowVariables(t *testing.T) {
	a := newAgent(t).start()
	a.Run(variableJob)
	a.Eventually(20*time.Second, "the task waits for the variable", func() bool {
		all := a.Allocs("app", "")
		return len(all) == 1 && all[0].ClientStatus == "pending"
	})
	a.Must("var", "put", "nomad/jobs/app", "password=one")
	id := a.Await("app", "running", 1)[0].ID
	config := a.Path(id, "t/secrets/config")
	has := func(text string) func() bool {
		return func() bool { b, _ := os.ReadFile(config); return strings.Contains(string(b), text) }
	}
	a.Eventually(10*time.Second, "the variable is rendered", has("password=one"))
	pid := a.PIDs(a.Allocs("app", "running"))[id]
	a.Must("var", "put", "-force", "nomad/jobs/app", "password=two")
	a.Eventually(20*time.Second, "the new value is rendered", has("password=two"))
	a.Must("var", "put", "nomad/jobs/other", "x=y")
	a.Eventually(20*time.Second, "the list is rendered anew", has("nomad/jobs/app nomad/jobs/other"))
	a.Kill()
	a.start()
	a.Must("var", "put", "-force", "nomad/jobs/app", "password=three")
	a.Eventually(20*time.Second, "templates are followed after a restart too", has("password=three"))
	if !harness.Running(pid) {
		t.Fatal("a template with change_mode noop touched its task")
	}
}
