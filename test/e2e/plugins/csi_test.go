// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// driverJob is a job whose task is a CSI driver.
func driverJob(name, id, command string, args []string, timeout string) string {
	return fmt.Sprintf(`
job %q {
  type = "service"
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = %q
        args    = ["%s"]
      }
      csi_plugin {
        id             = %q
        type           = "monolith"
        health_timeout = %q
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}`, name, command, strings.Join(args, `", "`), id, timeout)
}

// localDriver is a job that runs the local driver.
func (a *agent) localDriver(job, id string) string {
	return driverJob(job, id, filepath.Join(harness.Bin(), "drover-plugins"), []string{"drover-csi-local", "-data-dir", filepath.Join(a.Dir, "disk"), "-node-id", "n1"}, "2m")
}

// withCSI adds the adapter to the agent's plugins.
func (a *agent) withCSI() *agent {
	a.Plugin("csi", fmt.Sprintf("exec %s/drover-plugins csi \"$@\"", harness.Bin()))
	return a
}

// storage is what the node reports of a driver; nil if it reports none.
func (a *agent) storage(id string) *model.CSIInfo {
	a.T.Helper()
	nodes, _, err := a.Nodes(a.Context(), nil)
	if err != nil || len(nodes) != 1 {
		return nil
	}
	n, _, err := a.Node(a.Context(), nodes[0].ID, nil)
	if err != nil || n.CSINodePlugins[id] == nil {
		return nil
	}
	if c := n.CSIControllerPlugins[id]; c == nil || c.Healthy != n.CSINodePlugins[id].Healthy {
		return nil
	}
	return n.CSINodePlugins[id]
}

// processOf is the pid of a plugin or of an instance; 0 if it has no process.
func (a *agent) processOf(name string) (pid int) {
	a.T.Helper()
	all, err := a.AgentPlugins(a.Context(), "")
	if err != nil {
		return 0
	}
	for _, p := range all {
		if p.Name == name {
			pid = p.PID
		}
	}
	return pid
}

// hasEvent waits for an event of an alloc's task.
func (a *agent) hasEvent(allocID, want string) {
	a.T.Helper()
	a.Eventually(harness.Patience, "the task has the event "+want, func() bool {
		full, _, err := a.Allocation(a.Context(), allocID, nil)
		if err != nil {
			return false
		}
		for _, ev := range full.TaskStates["t"].Events {
			if strings.Contains(ev.Type+": "+ev.DisplayMessage, want) {
				return true
			}
		}
		return false
	})
}

func TestACSIDriverIsAJob(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skipf("mkfs.ext4 is not installed: %v", err)
	}
	a := newAgent(t).withCSI().start()
	if pid := a.processOf("csi"); pid != 0 {
		t.Errorf("the adapter has the process %d though no driver is there", pid)
	}
	a.Run(a.localDriver("disk", "org.example.disk"))
	healthy := func(what string) {
		t.Helper()
		a.Eventually(harness.Patience, what, func() bool {
			r := a.storage("org.example.disk")
			return r != nil && r.Healthy
		})
	}
	healthy("the node reports the driver")
	alloc := a.Await("disk", "running", 1)[0]
	if r := a.storage("org.example.disk"); r.AllocID != alloc.ID || r.NodeInfo == nil || r.NodeInfo.ID != "n1" || !r.NodeInfo.RequiresNodeStageVolume {
		t.Errorf("it reports %+v, %+v", r, r.NodeInfo)
	}
	a.hasEvent(alloc.ID, "Plugin became healthy: plugin: org.example.disk")
	instance := a.processOf("csi@org.example.disk")
	if err := syscall.Kill(instance, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.Eventually(harness.Patience, "the adapter has another process", func() bool { p := a.processOf("csi@org.example.disk"); return p != 0 && p != instance })
	healthy("after the adapter was killed, the node reports the driver")
	a.Kill()
	a.Start()
	a.Eventually(harness.Patience, "after the agent was killed, the adapter runs again", func() bool { return a.processOf("csi@org.example.disk") != 0 })
	healthy("after the agent was killed, the node reports the driver")
	if again := a.Await("disk", "running", 1)[0]; again.ID != alloc.ID || again.TaskStates["t"].Restarts != 0 {
		t.Errorf("the driver did not stay: %+v", again)
	}

	a.Run(driverJob("deaf", "deaf", "/bin/sleep", []string{"600"}, "1s"))
	failed := a.Await("deaf", "failed", 1)[0]
	a.hasEvent(failed.ID, `Plugin became unhealthy: CSI driver "deaf" has not become healthy within its health_timeout of 1s`)
	a.Must("job", "stop", "-purge", "deaf")
	a.Must("job", "stop", "-purge", "disk")
	a.Eventually(harness.Patience, "nothing is left of the driver", func() bool {
		return a.storage("org.example.disk") == nil && a.processOf("csi@org.example.disk") == 0 && a.processOf("csi") == 0
	})
}
