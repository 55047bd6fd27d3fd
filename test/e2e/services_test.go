// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

const storeJob = `
job "store" {
  group "db" {
    shutdown_delay = "30s"
    network {
      port "sql" {}
    }
    service {
      name     = "db"
      port     = "sql"
      provider = "nomad"
      tags     = ["TAG", "${NOMAD_ALLOC_INDEX}"]
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}
`

const frontJob = `
job "front" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $$ > local/pid; while :; do sleep 0.1; done"]
      }
      template {
        destination   = "local/db"
        change_mode   = "restart"
        data          = <<-EOT
          {{ range nomadService "db" }}db={{ .Address }}:{{ .Port }} {{ .Tags }};{{ end }}
          {{ range nomadService 1 (env "NOMAD_ALLOC_ID") "db" }}one={{ .Port }};{{ end }}
          {{ range nomadServices }}all={{ .Name }};{{ end }}
        EOT
      }
    }
  }
}
`

func TestAJobIsFoundByTheTemplateOfAnother(t *testing.T) {
	a := newAgent(t).start()
	a.Run(frontJob)
	front := a.Await("front", "running", 1)[0].ID
	file := a.Path(front, "t/local/db")
	rendered := func() string { b, _ := os.ReadFile(file); return string(b) }
	has := func(text string) func() bool { return func() bool { return strings.Contains(rendered(), text) } }
	lacks := func(text string) func() bool {
		return func() bool { return rendered() != "" && !strings.Contains(rendered(), text) }
	}
	restarts := func() uint64 { return a.Allocs("front", "")[0].TaskStates["t"].Restarts }

	a.Run(strings.Replace(storeJob, "TAG", "blue", 1))
	a.Await("store", "running", 1)
	a.Eventually(time.Minute, "the service is rendered", has("[0 blue];"))
	for _, part := range []string{"db=127.0.0.1:", "one=", "all=db;"} {
		if !has(part)() {
			t.Errorf("no %q in %q", part, rendered())
		}
	}
	a.Eventually(time.Minute, "the task is restarted for it", func() bool { return restarts() == 1 })

	var before []*model.ServiceRegistration
	if code, body := a.HTTPGet("/v1/service/db"); code != 200 || json.Unmarshal([]byte(body), &before) != nil || len(before) != 1 {
		t.Fatalf("status %d: %s", code, body)
	}
	a.Run(strings.Replace(storeJob, "TAG", "green", 1))
	a.Eventually(time.Minute, "a changed tag is rendered", has("[0 green];"))

	a.Kill()
	a.start()
	if !has("[0 green];")() {
		t.Error("the agent was killed, and the rendered file lost its service")
	}
	a.Eventually(time.Minute, "the restored server has the service", func() bool {
		code, body := a.HTTPGet("/v1/service/db")
		return code == 200 && strings.Contains(body, "green")
	})

	a.Must("service", "delete", "db", before[0].ID)
	a.Eventually(time.Minute, "a removed registration is gone from the file", lacks("db="))
	a.Run(strings.Replace(storeJob, "TAG", "red", 1))
	a.Eventually(time.Minute, "an update brings it back", has("[0 red];"))

	a.Must("job", "stop", "-detach", "store")
	a.Eventually(time.Minute, "it is gone from the file", lacks("db="))
	if list := a.Allocs("store", ""); len(list) != 1 || list[0].ClientStatus != "running" {
		t.Errorf("the service must be gone before its task ends, and the alloc is %+v", list)
	}
}
