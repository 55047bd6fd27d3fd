// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

func greedy(id, script string) string {
	return fmt.Sprintf(`job %q {
  group "g" {
    restart {
      attempts = 1
      delay    = "200ms"
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        init    = true
        command = "sh"
        args    = ["-c", %q]
      }
      resources {
        cpu    = 100
        memory = 24
      }
    }
  }
}`, id, script)
}

func TestATaskThatUsesTooMuchMemoryIsToldAndCounted(t *testing.T) {
	a := newAgent(t)
	d := a.dockerd()
	a.Configure("telemetry {\n  publish_allocation_metrics = true\n  prometheus_metrics = true\n  collection_interval = \"1s\"\n}\n")
	a.dockerAt(d, "")
	a.Run(greedy("all", "sleep 1; exec tail /dev/zero"))
	a.Run(greedy("child", "sleep 1; tail /dev/zero; echo survived; exec sleep 100000"))
	alloc := a.Await("all", model.AllocClientStatusFailed, 1)[0].ID
	if out := a.Must("alloc", "status", alloc); strings.Count(out, "OOM Killed") < 2 { // one start and one restart
		t.Errorf("alloc status:\n%s", out)
	}
	a.Eventually(20*time.Second, "both ends are counted", func() bool {
		_, body := a.HTTPGet("/v1/metrics?format=prometheus")
		return regexp.MustCompile(`nomad_client_allocs_oom_killed\{[^}]*job="all"[^}]*\} 2`).MatchString(body)
	})
	alloc = a.Await("child", model.AllocClientStatusRunning, 1)[0].ID
	a.Eventually(20*time.Second, "the task goes on", func() bool { return a.Must("alloc", "logs", alloc) == "survived\n" })
	a.Eventually(10*time.Second, "the end of its child is told", func() bool {
		return strings.Contains(a.Must("alloc", "status", alloc), "The kernel killed a process of the task")
	})
}
