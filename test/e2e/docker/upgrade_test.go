// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	"github.com/drover-project/drover/test/e2e/harness"
)

// counters is a set of containers that write numbered lines until they are told to
// stop.
type counters struct {
	*agent
	docker *dockertest.Daemon
	allocs []*model.AllocListStub
	was    []string // container ids and their start times
}

const counting = `job "count" {
  group "g" {
    count = %d
    update {
      min_healthy_time = "100ms"
      healthy_deadline = "1m"
    }
    restart {
      attempts = 20
      delay    = "500ms"
    }
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        init    = true
        command = "/bin/sh"
        args    = ["-c", "i=0; while [ ! -e /local/stop ]; do i=$((i+1)); echo $i; usleep 50000; done; echo $i > /local/lines; exec sleep 100000"]
      }
      kill_timeout = "1s"
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`

// count starts n containers on an agent with its own driver-docker file, which can
// be replaced over the API.
func count(t *testing.T, plugin string, n int) *counters {
	t.Helper()
	return countWith(t, plugin, "", n)
}

// countWith adds to the driver's config.
func countWith(t *testing.T, plugin, more string, n int) *counters {
	t.Helper()
	a := newAgent(t)
	d := a.dockerd()
	body, err := os.ReadFile(plugin)
	if err != nil {
		t.Fatal(err)
	}
	a.Write("plugins/driver-docker", 0o755, string(body))
	config, err := os.ReadFile(filepath.Join(a.Dir, "agent.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	a.Write("agent.hcl", 0o600, strings.Replace(string(config), "client {", "client {\n  plugin_install = true", 1))
	a.Configure(fmt.Sprintf("plugin \"docker\" {\n  config {\n    endpoint = %q\n%s\n  }\n}\n", d.Endpoint(), more))
	a.start()
	c := &counters{agent: a, docker: d}
	c.healthy()
	a.Run(fmt.Sprintf(counting, n))
	a.Eventually(time.Minute, "all containers run", func() bool {
		c.allocs = a.Allocs("count", model.AllocClientStatusRunning)
		return len(c.allocs) == n
	})
	c.was = c.containers()
	if len(c.was) != n {
		t.Fatalf("%d containers, want %d", len(c.was), n)
	}
	return c
}

func (c *counters) healthy() {
	c.T.Helper()
	c.Eventually(30*time.Second, "the docker driver is healthy", func() bool {
		nodes, _, err := c.Nodes(c.Context(), nil)
		return err == nil && len(nodes) == 1 && nodes[0].Drivers["docker"] != nil && nodes[0].Drivers["docker"].Healthy
	})
}

// containers returns each container of the daemon with its start time.
func (c *counters) containers() []string {
	c.T.Helper()
	out, err := c.listed()
	if err != nil {
		c.T.Fatal(err)
	}
	return out
}

// listed does the same while containers may disappear.
func (c *counters) listed() ([]string, error) {
	ids, err := c.docker.CLI("ps", "-aq", "--no-trunc")
	if err != nil {
		return nil, err
	}
	out, err := c.docker.CLI(append([]string{"inspect", "-f", "{{.Id}} {{.State.StartedAt}} {{.RestartCount}} {{.State.Status}}"}, strings.Fields(ids)...)...)
	lines := strings.Split(out, "\n")
	slices.Sort(lines)
	return lines, err
}

// same checks that the containers are the original ones.
func (c *counters) same(when string) {
	c.T.Helper()
	if now := c.containers(); !slices.Equal(now, c.was) {
		c.T.Fatalf("%s: the containers are\n%s\nand were\n%s", when, strings.Join(now, "\n"), strings.Join(c.was, "\n"))
	}
}

func (c *counters) plugin() *model.AgentPlugin {
	c.T.Helper()
	p, err := c.AgentPlugin(c.Context(), "", "driver-docker")
	if err != nil {
		c.T.Fatal(err)
	}
	return p
}

// managed waits until a plugin process has recovered all tasks.
func (c *counters) managed() {
	c.T.Helper()
	c.Eventually(30*time.Second, "the plugin has all tasks", func() bool {
		p, err := c.AgentPlugin(c.Context(), "", "driver-docker")
		return err == nil && harness.Running(p.PID) && p.Tasks == len(c.allocs)
	})
}

// noLineLost stops the writers and checks that each log has every line exactly once.
func (c *counters) noLineLost() {
	c.T.Helper()
	for _, x := range c.allocs {
		if err := os.WriteFile(c.Path(x.ID, "t/local/stop"), nil, 0o644); err != nil {
			c.T.Fatal(err)
		}
	}
	for _, x := range c.allocs {
		var n int
		c.Eventually(20*time.Second, "the container has written its last line", func() bool {
			body, _ := os.ReadFile(c.Path(x.ID, "t/local/lines")) // it may not exist yet
			n, _ = strconv.Atoi(strings.TrimSpace(string(body)))
			return n > 0
		})
		var lines []string
		c.Eventually(20*time.Second, "the last line is in the log", func() bool {
			body, err := os.ReadFile(c.Path(x.ID, "alloc/logs/t.stdout.0"))
			if err != nil {
				return false
			}
			lines = strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
			return lines[len(lines)-1] == strconv.Itoa(n)
		})
		for i, line := range lines {
			if line != strconv.Itoa(i+1) {
				c.T.Fatalf("alloc %s: line %d of %d is %q, and %d were written: something was lost or came twice", x.ID, i+1, len(lines), line, n)
			}
		}
	}
}

func TestADockerDriverIsUpgradedUnderItsContainers(t *testing.T) {
	one, two := harness.BuildPlugin(t, "driver-docker", "1.0.0"), harness.BuildPlugin(t, "driver-docker", "2.0.0")
	c := count(t, one, 20)
	before, first := c.CountEvents("count"), c.plugin()
	stop := make(chan struct{})
	times := c.SampleTimes(c.allocs[0].ID, stop)
	c.Eventually(10*time.Second, "there are stats", func() bool {
		code, body := c.HTTPGet("/v1/client/allocation/" + c.allocs[0].ID + "/stats")
		return code == 200 && !strings.Contains(body, `"Timestamp":0`)
	})
	if out, err := c.Slow("plugin", "upgrade", "-version", "2.0.0", "driver-docker", two); err != nil || !strings.Contains(out, "20 tasks") {
		t.Fatalf("upgrade: %v\n%s", err, out)
	}
	now := c.plugin()
	if now.Version != "2.0.0" || now.PID == first.PID || now.Restarts != 0 || now.Tasks != 20 {
		t.Fatalf("after the upgrade: %+v, before %+v", now, first)
	}
	c.Eventually(10*time.Second, "the old process has ended", func() bool { return !harness.Running(first.PID) })
	since := time.Now().UnixNano()
	c.Eventually(10*time.Second, "there are newer stats", func() bool {
		var usage struct{ Timestamp int64 }
		err := c.AllocationStats(c.Context(), c.allocs[0].ID, &usage)
		return err == nil && usage.Timestamp > since
	})
	close(stop)
	var gap time.Duration
	for i, seen := 1, <-times; i < len(seen); i++ {
		gap = max(gap, time.Duration(seen[i]-seen[i-1]))
	}
	t.Logf("the longest time between two samples, of one a second, was %s", gap)
	c.same("after the upgrade")

	for name, script := range map[string]string{"exits": "exit 1", "hangs": "exec sleep 1000"} {
		bad := c.Write("bad-"+name, 0o755, "#!/bin/sh\n"+script+"\n")
		if out, err := c.Slow("plugin", "upgrade", "driver-docker", bad); err == nil {
			t.Errorf("%s: it was accepted\n%s", name, out)
		}
		if st := c.plugin(); st.PID != now.PID || st.Version != "2.0.0" || st.UpgradeError == "" {
			t.Errorf("%s: %+v", name, st)
		}
	}
	if out, err := c.Slow("plugin", "rollback", "driver-docker"); err != nil || !strings.Contains(out, "1.0.0") {
		t.Fatalf("rollback: %v\n%s", err, out)
	}
	c.same("after bad versions and the rollback")
	if n := c.CountEvents("count"); n != before {
		t.Errorf("%d task events, before %d", n, before)
	}
	c.noLineLost()
}

func TestContainersOutliveKillsOfTheAgentAndThePluginInTheMiddleOfUpgrades(t *testing.T) {
	one, two := harness.BuildPlugin(t, "driver-docker", "1.0.0"), harness.BuildPlugin(t, "driver-docker", "2.0.0")
	c := count(t, one, 5)
	for i := range 3 {
		said := c.AmidUpgrade("driver-docker", one, two)
		if i == 1 { // both processes of the plugin
			for _, pid := range c.PluginProcesses("driver-docker") {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		<-time.After(time.Duration(i) * 40 * time.Millisecond) // a little later in each round
		c.Kill()
		t.Log(<-said)
		c.start()
		c.managed()
		c.Eventually(15*time.Second, "one plugin process is left", func() bool { return len(c.PluginProcesses("driver-docker")) == 1 })
		c.same("after a kill of the agent")
	}
	pid := c.plugin().PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.Eventually(30*time.Second, "there is another process", func() bool {
		p, err := c.AgentPlugin(c.Context(), "", "driver-docker")
		return err == nil && p.PID != pid && harness.Running(p.PID)
	})
	c.managed()
	c.same("after a kill of the plugin")
	c.noLineLost()
}

// The old process keeps running while a call is in progress in it. It does not know
// tasks that start meanwhile, so to it they look like orphans.
func TestWhatStartsAfterAnUpgradeIsLeftAloneByTheProcessBefore(t *testing.T) {
	c := countWith(t, harness.BuildPlugin(t, "driver-docker", "1.0.0"), eager, 1)
	old := c.plugin().PID
	session := c.Command(t.Context(), "alloc", "exec", "-i=false", c.allocs[0].ID,
		"sh", "-c", "touch /local/inside; while [ ! -e /local/leave ]; do usleep 50000; done; echo left; exit 9")
	type end struct {
		out  string
		code int
	}
	ended := make(chan end, 1)
	go func() {
		out, _ := session.CombinedOutput() // the exit code is checked
		ended <- end{string(out), session.ProcessState.ExitCode()}
	}()
	there := func(name string) func() bool {
		return func() bool {
			_, err := os.Stat(c.Path(c.allocs[0].ID, "t/local/"+name))
			return err == nil
		}
	}
	c.Eventually(20*time.Second, "somebody is inside", there("inside"))
	if out, err := c.Slow("plugin", "upgrade", "driver-docker", harness.BuildPlugin(t, "driver-docker", "2.0.0")); err != nil {
		t.Fatalf("upgrade: %v\n%s", err, out)
	}
	c.Run(pulled("later", dockertest.BusyBox))
	later := c.Await("later", model.AllocClientStatusRunning, 1)[0].ID
	started, err := c.docker.CLI("inspect", "-f", "{{.Id}} {{.State.StartedAt}}", "t-"+later)
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(6 * time.Second) // three times the grace period of orphans, and six times the interval of the check
	if !harness.Running(old) {
		t.Fatal("the process before has ended, with somebody working in it")
	}
	if now, err := c.docker.CLI("inspect", "-f", "{{.Id}} {{.State.StartedAt}}", "t-"+later); err != nil || now != started {
		t.Errorf("the container that started after the upgrade is now %q, %v; it was %q", now, err, started)
	}
	if err := os.WriteFile(c.Path(c.allocs[0].ID, "t/local/leave"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.code != 9 || got.out != "left\n" {
		t.Errorf("the session ended with %+v", got)
	}
	c.Eventually(20*time.Second, "the process before has ended", func() bool { return !harness.Running(old) })
	c.Eventually(20*time.Second, "the later task's container is still there", func() bool {
		now, err := c.docker.CLI("inspect", "-f", "{{.Id}} {{.State.StartedAt}}", "t-"+later)
		return err == nil && now == started
	})
	c.noLineLost()
}
