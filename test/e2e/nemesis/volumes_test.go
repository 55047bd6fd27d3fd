// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nemesis_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// disks is a cluster of three servers and two nodes with a driver whose volumes both nodes can
// have, one after the other.
type disks struct {
	*cluster
	shared string // the storage system
}

// newDisks starts the cluster and makes the volume "database".
func newDisks(t *testing.T) *disks {
	shared := t.TempDir()
	binary := filepath.Join(shared, "netdisk")
	harness.Build(t, binary, "test/e2e/harness/testdata/netdisk")
	c := &disks{shared: shared, cluster: prepareCluster(t, 2, nil, func(a *harness.Agent) {
		a.Plugin("csi", fmt.Sprintf("exec %s/drover-plugins csi \"$@\"", harness.Bin()))
	})}
	if err := os.Mkdir(filepath.Join(shared, "faults"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.cluster.attached()
	t.Cleanup(func() { // mounts of a machine that died are left
		for _, path := range c.mounts() {
			_ = syscall.Unmount(path, syscall.MNT_DETACH)
		}
	})
	c.servers[0].Run(fmt.Sprintf(netdiskJob, binary, shared))
	c.healthy(2)
	c.servers[0].Write("volume.hcl", 0o600, netdiskVolume)
	c.servers[0].Must("volume", "create", filepath.Join(c.servers[0].Dir, "volume.hcl"))
	return c
}

const netdiskJob = `
job "netdisk" {
  type = "system"
  group "g" {
    restart {
      attempts = 100
      interval = "1h"
      delay    = "1s"
      mode     = "delay"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = %q
        args    = ["-shared", %q, "-node-id", "${node.unique.name}"]
      }
      csi_plugin {
        id   = "netdisk"
        type = "monolith"
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}`

const netdiskVolume = `
id        = "database"
name      = "database"
type      = "csi"
plugin_id = "netdisk"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`

// netdiskWriter is a job that adds a line to a file of the volume and reads it.
func netdiskWriter(name string) string {
	return fmt.Sprintf(`
job %q {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "database"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo line of $NOMAD_JOB_NAME on ${node.unique.name} >>/srv/log; cat /srv/log; exec sleep 600"]
      }
      volume_mount {
        volume      = "data"
        destination = "/srv"
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}`, name)
}

// server returns a server that runs.
func (c *disks) server() *harness.Agent {
	for _, s := range c.servers {
		if s.Alive() {
			return s
		}
	}
	c.t.Fatal("no server runs")
	return nil
}

// healthy waits until n nodes have the driver.
func (c *disks) healthy(n int) {
	c.t.Helper()
	c.server().Eventually(2*harness.Patience, "nodes report the driver", func() bool {
		p, err := c.server().CSIPlugin(short(c.t), "netdisk")
		return err == nil && p.NodesHealthy == n && p.ControllersHealthy == n
	})
}

// short returns a context for a call to a server that may be about to end.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (c *disks) volume() *api.CSIVolume {
	v, _, err := c.server().CSIVolume(short(c.t), "database", nil)
	if err != nil {
		return nil
	}
	return v
}

// mounts returns what is mounted of volumes on nodes.
func (c *disks) mounts() (out []string) {
	body, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if path := strings.Fields(line)[4]; strings.Contains(path, "/csi/node/netdisk/") {
			for _, n := range c.nodes {
				if strings.HasPrefix(path, n.Dir+"/") {
					out = append(out, path)
				}
			}
		}
	}
	return out
}

// calls are the lines of the driver's log after the first n.
func (c *disks) calls(n int) []string {
	body, err := os.ReadFile(filepath.Join(c.shared, "calls"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(string(body)), "\n")
	return all[min(n, len(all)):]
}

func (c *disks) fault(call, what string) {
	if err := os.WriteFile(filepath.Join(c.shared, "faults", call), []byte(what), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *disks) mend(call string) {
	if err := os.Remove(filepath.Join(c.shared, "faults", call)); err != nil {
		c.t.Fatal(err)
	}
}

// hangsOn waits until a call hangs, and returns the node whose driver it is.
func (c *disks) hangsOn(call string, seen int) (on *harness.Agent) {
	c.t.Helper()
	c.server().Eventually(2*harness.Patience, call+" has begun", func() bool {
		for _, line := range c.calls(seen) {
			for i, n := range c.nodes {
				if line == fmt.Sprintf("n%d %s database begins", i+1, call) {
					on = n
				}
			}
		}
		return on != nil
	})
	return on
}

// runs waits until a writer runs and has read what it and those before it have written.
func (c *disks) runs(job string, want ...string) *model.AllocListStub {
	c.t.Helper()
	var alloc *model.AllocListStub
	c.server().Eventually(2*harness.Patience, job+" runs", func() bool {
		for _, x := range c.server().Allocs(job, model.AllocClientStatusRunning) {
			alloc = x
		}
		return alloc != nil
	})
	c.server().Eventually(harness.Patience, job+" has read "+strings.Join(want, ", "), func() bool {
		out, _ := c.server().CLI("alloc", "logs", alloc.ID)
		for _, w := range want {
			if !strings.Contains(out, w) {
				return false
			}
		}
		return true
	})
	return alloc
}

// free waits until nobody has the volume.
func (c *disks) free() {
	c.t.Helper()
	var left string
	c.server().Eventually(2*harness.Patience, "nobody has the volume", func() bool {
		v := c.volume()
		if v == nil {
			return false
		}
		attached, _ := os.ReadDir(filepath.Join(c.shared, "volumes", "database", "attached")) // what the driver says
		left = fmt.Sprintf("%d attachments, %d allocs, %d nodes of the driver, mounts %q", len(v.Attachments), len(v.Allocations), len(attached), c.mounts())
		return left == "0 attachments, 0 allocs, 0 nodes of the driver, mounts []"
	})
}

// steps are the calls for a writer, in order. The first three bring the volume.
var steps = []string{"ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"}

// victims are what is killed during a step of a node.
var victims = []struct {
	name string
	kill func(c *disks, on *harness.Agent) (mend func())
}{
	{"the agent", func(_ *disks, on *harness.Agent) func() { on.Kill(); return on.Launch }},
	{"the adapter", func(c *disks, on *harness.Agent) func() { c.killAdapter(on); return func() {} }},
	{"the driver", func(c *disks, on *harness.Agent) func() { c.killAll(on.Processes("netdisk -shared")); return func() {} }},
	{"the leader", func(c *disks, _ *harness.Agent) func() { l := c.leader(); l.Kill(); return l.Launch }},
}

func (c *disks) killAll(pids []int) {
	c.t.Helper()
	if len(pids) == 0 {
		c.t.Fatal("there is no process to kill")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			c.t.Fatal(err)
		}
	}
}

func (c *disks) killAdapter(on *harness.Agent) {
	c.t.Helper()
	all, err := on.AgentPlugins(on.Context(), "")
	if err != nil {
		c.t.Fatal(err)
	}
	var pids []int
	for _, p := range all {
		if p.Name == "csi@netdisk" && p.PID != 0 {
			pids = append(pids, p.PID)
		}
	}
	c.killAll(pids)
}

// TestNoKillKeepsAVolume kills an agent, an adapter, a driver or a leader during each step of a
// writer, and then all of a writer's node. In CI one victim is drawn for each step; with
// DROVER_NEMESIS_ROUNDS all are killed.
func TestNoKillKeepsAVolume(t *testing.T) {
	c := newDisks(t)
	for i, step := range steps {
		drawn := rand.IntN(len(victims))
		for j, victim := range victims {
			if j != drawn && os.Getenv("DROVER_NEMESIS_ROUNDS") == "" {
				continue
			}
			if !t.Run(victim.name+" is killed during "+step, func(t *testing.T) {
				c.of(t)
				c.killDuring(fmt.Sprintf("w%d-%d", i, j), step, i < 3, victim.kill)
			}) {
				c.of(c.t)
				t.Logf("the driver's calls:\n%s", strings.Join(c.calls(0), "\n"))
				return
			}
		}
	}
	t.Run("the node of a writer dies", func(t *testing.T) {
		c.of(t)
		c.killNode()
	})
	c.of(t)
	for _, line := range c.calls(0) {
		if strings.Contains(line, " WRONG ") {
			t.Errorf("two nodes had the volume at once: %s", line)
		}
	}
	if t.Failed() {
		t.Logf("the driver's calls:\n%s", strings.Join(c.calls(0), "\n"))
	}
}

func (c *disks) killDuring(job, step string, forth bool, kill func(*disks, *harness.Agent) func()) {
	c.t.Helper()
	seen := len(c.calls(0))
	if forth {
		c.fault(step, "hang")
		c.server().Run(netdiskWriter(job))
	} else {
		c.server().Run(netdiskWriter(job))
		c.runs(job, "line of "+job)
		c.fault(step, "hang")
		c.server().Must("job", "stop", "-purge", "-detach", job)
	}
	mend := kill(c, c.hangsOn(step, seen))
	c.mend(step)
	mend()
	if forth {
		c.runs(job, "line of "+job)
		c.server().Must("job", "stop", "-purge", "-detach", job)
	}
	c.free()
	c.working()
	c.healthy(2)
}

// killNode kills everything of a writer's node and cuts its link. Nobody does anything about
// that, and the writer has its data elsewhere. When the node is back, nothing is left on it.
func (c *disks) killNode() {
	c.t.Helper()
	c.server().Run(netdiskWriter("db"))
	first := c.runs("db", "line of db on")
	dead := c.nodeOf(first)
	began := time.Now()
	c.network.Link(dead, "down")
	dead.KillAll()
	<-dead.Done
	var down time.Duration
	c.server().Eventually(2*harness.Patience, "the node is down", func() bool {
		n, _, err := c.server().Node(short(c.t), first.NodeID, nil)
		down = time.Since(began)
		return err == nil && n.Status == model.NodeStatusDown
	})
	var second *model.AllocListStub
	c.server().Eventually(harness.Patience, "the writer runs elsewhere", func() bool {
		for _, x := range c.server().Allocs("db", model.AllocClientStatusRunning) {
			if x.ID != first.ID {
				second = x
			}
		}
		return second != nil
	})
	c.t.Logf("FIGURE writer's node killed: it is down after %s, and the writer runs elsewhere %s after that", down.Round(time.Millisecond), (time.Since(began) - down).Round(time.Millisecond))
	c.runs("db", "line of db on "+first.NodeName, "line of db on "+second.NodeName)
	if v := c.volume(); v == nil || len(v.Attachments) != 1 || v.Attachments[second.NodeID] == nil {
		c.t.Errorf("the volume is %+v", v)
	}
	if out := c.server().Must("volume", "status", "-type", "csi", "database"); !strings.Contains(out, "attached") || !strings.Contains(out, second.ID[:8]) {
		c.t.Errorf("volume status says %s", out)
	}
	c.network.Link(dead, "up")
	dead.Launch()
	c.healthy(2)
	c.server().Eventually(2*harness.Patience, "the node that was dead has unmounted the volume", func() bool {
		for _, path := range c.mounts() {
			if strings.HasPrefix(path, dead.Dir+"/") {
				return false
			}
		}
		return true
	})
	if now := c.runs("db", "line of db on "+second.NodeName); now.ID != second.ID {
		c.t.Errorf("the writer was touched: it is %s on %s, and was %s on %s", now.ID, now.NodeName, second.ID, second.NodeName)
	}
	c.server().Must("job", "stop", "-purge", "-detach", "db")
	c.free()
}
