// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	"github.com/drover-project/drover/test/e2e/harness"
)

// elsewhere runs a raw_exec task and returns a function that checks that nothing has
// affected it.
func (a *agent) elsewhere() (untouched func(when string)) {
	a.T.Helper()
	a.Run(harness.Shell("elsewhere", "service", 1, harness.Quick, "exec sleep 100000"))
	allocs := a.Await("elsewhere", model.AllocClientStatusRunning, 1)
	pid := a.PIDs(allocs)[allocs[0].ID]
	events := a.CountEvents("elsewhere")
	return func(when string) {
		a.T.Helper()
		now := a.Allocs("elsewhere", model.AllocClientStatusRunning)
		if len(now) != 1 || now[0].ID != allocs[0].ID || !harness.Running(pid) || a.CountEvents("elsewhere") != events {
			a.T.Fatalf("%s: the raw_exec task was touched: %+v", when, now)
		}
	}
}

func TestADockerdThatIsKilledEndsOnlyWhatItsOperatorHasItEnd(t *testing.T) {
	c := count(t, harness.BuildPlugin(t, "driver-docker", "1.0.0"), 3)
	untouched := c.elsewhere()
	before := c.CountEvents("count")
	if err := c.docker.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Eventually(30*time.Second, "the driver is unhealthy", func() bool { return !c.dockerHealthy() })
	untouched("without a dockerd")
	if err := c.docker.Run(); err != nil {
		t.Fatal(err)
	}
	c.healthy()
	c.same("after a dockerd with live-restore came back")
	c.noLineLost()
	if n := c.CountEvents("count"); n != before {
		t.Errorf("%d task events, before %d", n, before)
	}

	// Now a daemon without live-restore. If it is killed, it stops its containers when
	// it is back.
	c.docker.EndContainers = true
	if err := c.docker.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.docker.Run(); err != nil {
		t.Fatal(err)
	}
	c.restarted("after a dockerd without live-restore came up")
	if err := c.docker.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.docker.Run(); err != nil {
		t.Fatal(err)
	}
	c.restarted("after a dockerd without live-restore was killed")
	untouched("after all that")

	// Kill everything, as in a restart of the machine.
	c.Kill()
	for _, pid := range c.PluginProcesses("driver-docker") {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	if err := c.docker.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.docker.Run(); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.restarted("after agent, plugin and dockerd were gone")
	c.managed()
}

// restarted waits until each alloc runs in a new container.
func (c *counters) restarted(when string) {
	c.T.Helper()
	var now []string
	c.Eventually(90*time.Second, "the tasks run in new containers "+when, func() bool {
		if len(c.allocs) != len(c.agent.Allocs("count", model.AllocClientStatusRunning)) {
			return false
		}
		var err error
		now, err = c.listed()
		return err == nil && len(now) == len(c.was) && !slices.ContainsFunc(now, func(one string) bool {
			return !strings.HasSuffix(one, " running") || slices.Contains(c.was, one)
		})
	})
	c.was = now
}

func (a *agent) dockerHealthy() bool {
	nodes, _, err := a.Nodes(a.Context(), nil)
	return err == nil && len(nodes) == 1 && nodes[0].Drivers["docker"] != nil && nodes[0].Drivers["docker"].Healthy
}

func pulled(id, image string) string {
	return fmt.Sprintf(`job %q {
  group "g" {
    restart {
      attempts = 10
      delay    = "1s"
      interval = "10m"
    }
    task "t" {
      driver = "docker"
      config {
        image   = %q
        command = "sleep"
        args    = ["100000"]
        init    = true
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`, id, image)
}

func TestADockerdThatHangsInAPullOrAStartHoldsUpNobodyElse(t *testing.T) {
	a, d := dockerAgent(t)
	untouched := a.elsewhere()
	r := dockertest.NewRegistry(t)
	img, err := dockertest.NewImage("slow")
	if err != nil {
		t.Fatal(err)
	}
	name := r.Push(t, "slow", "1", img)
	r.Hold()
	a.Run(pulled("pull", name))
	said := func(job, text string) func() bool {
		return func() bool {
			for _, x := range a.Allocs(job, "") {
				st := x.TaskStates["t"]
				if st == nil {
					continue
				}
				for _, e := range st.Events {
					if strings.Contains(e.DisplayMessage, text) {
						return true
					}
				}
			}
			return false
		}
	}
	a.Eventually(20*time.Second, "the image is on its way", said("pull", "Downloading image"))
	if err := d.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Signal(syscall.SIGCONT) }) // sending it twice does no harm
	a.Run(pulled("start", "busybox:drover"))
	begin := time.Now()
	a.Run(harness.Shell("meanwhile", "batch", 1, "", "exit 0"))
	a.Await("meanwhile", model.AllocClientStatusComplete, 1)
	t.Logf("a raw_exec job took %s beside the dockerd that hangs", time.Since(begin))
	a.Eventually(40*time.Second, "the driver is unhealthy", func() bool { return !a.dockerHealthy() })
	for _, job := range []string{"pull", "start"} {
		a.Eventually(10*time.Second, job+" says what it waits for", said(job, "The Docker daemon does not answer"))
	}
	untouched("beside a dockerd that hangs")
	r.Release()
	if err := d.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"pull", "start"} {
		a.Eventually(time.Minute, job+" runs", func() bool { return len(a.Allocs(job, model.AllocClientStatusRunning)) == 1 })
	}
	untouched("after all that")
}
