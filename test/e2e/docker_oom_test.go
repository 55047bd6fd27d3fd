// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package e2e_test

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
	a.configure("telemetry {\n  publish_allocation_metrics = true\n  prometheus_metrics = true\n  collection_interval = \"1s\"\n}\n")
	a.dockerAt(d, "")
	a.run(greedy("all", "exec tail /dev/zero"))
	a.run(greedy("child", "tail /dev/zero; echo survived; exec sleep 100000"))
	alloc := a.await("all", model.AllocClientStatusFailed, 1)[0].ID
	if out := a.must("alloc", "status", alloc); strings.Count(out, "OOM Killed") < 2 { // one start and one restart
		t.Errorf("alloc status:\n%s", out)
	}
	a.eventually(20*time.Second, "both ends are counted", func() bool {
		_, body := a.get("/v1/metrics?format=prometheus")
		return regexp.MustCompile(`nomad_client_allocs_oom_killed\{[^}]*job="all"[^}]*\} 2`).MatchString(body)
	})
	alloc = a.await("child", model.AllocClientStatusRunning, 1)[0].ID
	a.eventually(20*time.Second, "the task goes on", func() bool { return a.must("alloc", "logs", alloc) == "survived\n" })
	a.eventually(10*time.Second, "the end of its child is told", func() bool {
		return strings.Contains(a.must("alloc", "status", alloc), "The kernel killed a process of the task")
	})
}
