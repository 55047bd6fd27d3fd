// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

const lostJob = `job "lost" {
  group "g" {
    restart {
      attempts = 10
      delay    = "1s"
    }
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        command = "/bin/sleep"
        args    = ["600"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`

// TestTheReasonWhyAContainerCannotBeRecoveredIsInTheTasksEventsAndTheLog removes a container
// while no process of the plugin looks: once under an agent that runs, and once while it does
// not run either.
func TestTheReasonWhyAContainerCannotBeRecoveredIsInTheTasksEventsAndTheLog(t *testing.T) {
	a, d := dockerAgent(t)
	a.Run(lostJob)
	alloc := a.Await("lost", model.AllocClientStatusRunning, 1)[0].ID
	container := func() string {
		out, err := d.CLI("ps", "-q", "--filter", "label=io.drover.alloc_id="+alloc)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	// signal signals each process of the plugin.
	signal := func(s syscall.Signal) {
		for _, pid := range a.Processes("driver-docker") {
			_ = syscall.Kill(pid, s) // it may have ended
		}
	}
	for _, one := range []struct {
		agent, event string
	}{
		{"an agent that runs", "the task is gone and its exit code is not known: recover task"},
		{"an agent that was killed", "failed to restore task: recover task"},
	} {
		a.Eventually(harness.Patience, "the task runs", func() bool { return container() != "" })
		was := container()
		if one.agent == "an agent that was killed" {
			a.Kill()
		}
		signal(syscall.SIGSTOP)
		if _, err := d.CLI("rm", "-f", was); err != nil {
			t.Fatal(err)
		}
		signal(syscall.SIGKILL)
		if !a.Alive() {
			a.start()
		}
		why := "its container " + was + " is gone"
		a.Eventually(time.Minute, "under "+one.agent+" an event has the reason", func() bool {
			out, _ := a.CLI("alloc", "status", "-verbose", alloc)
			return strings.Contains(out, one.event) && strings.Contains(out, why)
		})
		if !strings.Contains(a.Log(), why) {
			t.Errorf("under %s the log does not say that %s", one.agent, why)
		}
		a.Eventually(time.Minute, "the task runs again", func() bool { now := container(); return now != "" && now != was })
	}
}
