// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// unforgiving is the part of a group that forbids restarts and reschedules.
const unforgiving = `
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }`

func TestHostileADockerPluginThatIsKilledInAStartCostsNoAllocAndNoContainer(t *testing.T) {
	a, d := dockerAgent(t)
	const rounds = 4 // more rounds would be a crash loop of the plugin
	for round := range rounds {
		job := fmt.Sprintf("ghost%d", round)
		a.Run(fmt.Sprintf(`job %q {
  group "g" {%s
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        command = "/bin/sleep"
        args    = ["600"]
        init    = true
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`, job, unforgiving))
		pause := time.NewTimer(time.Duration(round+1) * 120 * time.Millisecond) // spread over the duration of a start
		<-pause.C
		for _, pid := range a.Processes("driver-docker") {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		alloc := a.Await(job, model.AllocClientStatusRunning, 1)[0].ID
		containers := func() int {
			out, err := d.CLI("ps", "-aq", "--filter", "label=io.drover.alloc_id="+alloc)
			if err != nil {
				t.Fatal(err)
			}
			return len(strings.Fields(out))
		}
		a.Eventually(20*time.Second, "the alloc has one container", func() bool { return containers() == 1 })
		a.Must("job", "stop", "-detach", job)
		a.Eventually(20*time.Second, "it has none after its stop", func() bool { return containers() == 0 })
	}
}

func TestHostileASupervisorThatIsStoppedWhileJobsStartCostsNoAllocAndLeavesNoGhost(t *testing.T) {
	a := newAgent(t)
	a.Plugin("driver-exec", fmt.Sprintf("export DROVER_PLUGIN_STATE_DIR=%s/state DROVER_SUPERVISOR_IDLE=20s DROVER_SUPERVISOR_HANG=1s; exec %s/driver-exec \"$@\"", a.Dir, harness.Bin()))
	a.start()
	job := func(name, driver string) string {
		return fmt.Sprintf(`job %q {
  group "g" {%s
    task "t" {
      driver = %q
      config {
        command = "/bin/sleep"
        args    = ["8700%d"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`, name, unforgiving, driver, len(name))
	}
	a.Run(job("base", "raw_exec"))
	a.Await("base", model.AllocClientStatusRunning, 1)
	a.Eventually(harness.Patience, "its task sleeps", func() bool { return len(sleepers("87004")) == 1 }) // the process that starts it has another command line at first
	base := sleepers("87004")
	for _, driver := range []string{"raw_exec", "exec"} {
		for _, pid := range a.Processes("__drover-supervise loop") {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		name := "late-" + driver
		a.Run(job(name, driver))
		a.Await(name, model.AllocClientStatusRunning, 1)
		sleeps := func() int { return len(sleepers(fmt.Sprintf("8700%d", len(name)))) }
		a.Eventually(harness.Patience, "its task sleeps", func() bool { return sleeps() > 0 })
		if n := sleeps(); n != 1 {
			t.Errorf("%s: %d processes of one task", driver, n)
		}
		a.Must("job", "stop", "-detach", name)
		a.Eventually(20*time.Second, "no process of it is left", func() bool { return sleeps() == 0 })
	}
	if now := sleepers("87004"); len(base) != 1 || !slices.Equal(now, base) {
		t.Errorf("the task that ran all the time is %v, was %v", now, base)
	}
}

// sleepers returns all processes on the machine that sleep for the given number of
// seconds. The command line of an isolated task does not contain its agent.
func sleepers(seconds string) []string {
	var out []string
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, name := range names {
		if line, _ := os.ReadFile(name); string(line) == "/bin/sleep\x00"+seconds+"\x00" { // it may have ended
			out = append(out, filepath.Base(filepath.Dir(name)))
		}
	}
	return out
}
