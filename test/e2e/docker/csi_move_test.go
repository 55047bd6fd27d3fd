// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	"github.com/drover-project/drover/test/e2e/harness"
)

// shelf is a cluster of a server and two nodes on machines of their own. One node at a time has
// the directory of the local driver, as if a shelf of disks were plugged in there.
type shelf struct {
	*agent // the server
	nodes  map[string]*agent
	dir    string
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	harness.TakeSlot(t)
	d, err := dockertest.Start()
	if err != nil {
		t.Skipf("no Docker daemon: %v", err)
	}
	t.Cleanup(d.Remove)
	w := harness.NewNetwork(t)
	s := &shelf{dir: t.TempDir(), nodes: map[string]*agent{}}
	s.agent = &agent{w.Machine("srv", "server {\n  enabled = true\n  bootstrap_expect = 1\n}")}
	for _, name := range []string{"n1", "n2"} {
		n := &agent{w.Machine(name, harness.NodeOf(s.Agent)+fmt.Sprintf("plugin \"docker\" {\n  config { endpoint = %q }\n}\n", d.Endpoint()))}
		n.Plugin("csi", fmt.Sprintf("exec %s/drover-plugins csi \"$@\"", harness.Bin()))
		n.Plugin("driver-docker", "exec "+filepath.Join(harness.Bin(), "driver-docker"))
		s.nodes[name] = n
	}
	s.Launch()
	for _, n := range s.nodes {
		n.Launch()
	}
	s.ready()
	return s
}

// ready waits until both nodes run tasks of all drivers.
func (s *shelf) ready() {
	s.T.Helper()
	s.Eventually(2*harness.Patience, "both nodes are ready for all drivers", func() bool {
		nodes, _, err := s.Nodes(s.Context(), nil)
		able := 0
		for _, n := range nodes {
			ok := n.Status == model.NodeStatusReady
			for _, driver := range drivers {
				ok = ok && n.Drivers[driver] != nil && n.Drivers[driver].Healthy
			}
			if ok {
				able++
			}
		}
		return err == nil && able == len(s.nodes)
	})
}

// drivers are those whose tasks use volumes.
var drivers = []string{"docker", "exec", "raw_exec"}

// plug runs the local driver on a node.
func (s *shelf) plug(node string) {
	s.T.Helper()
	s.Run(fmt.Sprintf(`job "shelf" {
  group "g" {
    constraint {
      attribute = "${node.unique.name}"
      value     = %q
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "%s/drover-plugins"
        args    = ["drover-csi-local", "-data-dir", %q, "-node-id", "shelf"]
      }
      csi_plugin {
        id   = "shelf"
        type = "monolith"
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}`, node, harness.Bin(), s.dir))
	s.Eventually(2*harness.Patience, "the shelf is at "+node, func() bool {
		p, err := s.CSIPlugin(s.Context(), "shelf")
		if err != nil || p.NodesHealthy != 1 || p.ControllersHealthy != 1 {
			return false
		}
		for _, a := range p.Allocations {
			if a.NodeName == node && a.ClientStatus == model.AllocClientStatusRunning {
				return true
			}
		}
		return false
	})
}

// stop stops jobs and waits for the end of their allocs, which have taken their volumes back then.
func (s *shelf) stop(jobs ...string) {
	s.T.Helper()
	for _, job := range jobs {
		s.Must("job", "stop", "-purge", "-detach", job)
	}
	s.Eventually(2*harness.Patience, strings.Join(jobs, ", ")+" have ended", func() bool {
		for _, job := range jobs {
			if len(s.Allocs(job, model.AllocClientStatusRunning)) > 0 {
				return false
			}
		}
		return true
	})
}

// scribe is a job that adds a line to a file of the volume of its name, and reads it.
func scribe(driver string) string {
	config, at := "", "/srv/data"
	switch driver {
	case "docker":
		config = "image = \"busybox:drover\"\n"
	case "raw_exec":
		at = "local/data"
	}
	return fmt.Sprintf(`job %q {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = %[1]q
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = %[1]q
      config {
        %[2]s
        command = "/bin/sh"
        args    = ["-c", "echo $NOMAD_JOB_NAME on ${node.unique.name} >>%[3]s/log; cat %[3]s/log; exec sleep 600"]
      }
      volume_mount {
        volume      = "data"
        destination = %[3]q
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`, driver, config, at)
}

// read waits until the task of each driver has read what it and those before it have written.
func (s *shelf) read(nodes ...string) map[string]*model.AllocListStub {
	s.T.Helper()
	all := map[string]*model.AllocListStub{}
	for _, driver := range drivers {
		all[driver] = s.Await(driver, model.AllocClientStatusRunning, 1)[0]
		want := ""
		for _, n := range nodes {
			want += driver + " on " + n + "\n"
		}
		s.Eventually(harness.Patience, "the task of "+driver+" reads "+want, func() bool {
			out, _ := s.CLI("alloc", "logs", all[driver].ID)
			return out == want
		})
	}
	return all
}

// TestTasksOfAllDriversFindTheirVolumesAfterARestartAndAMove has a volume of the local driver for
// a task of each driver.
func TestTasksOfAllDriversFindTheirVolumesAfterARestartAndAMove(t *testing.T) {
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skipf("mkfs.ext4 is not installed: %v", err)
	}
	s := newShelf(t)
	s.plug("n1")
	for _, driver := range drivers {
		s.Must("volume", "create", s.Write("volume.hcl", 0o600, fmt.Sprintf(`
id           = %q
name         = %[1]q
type         = "csi"
plugin_id    = "shelf"
capacity_min = "16MiB"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`, driver)))
		s.Run(scribe(driver))
	}
	before := s.read("n1")

	s.nodes["n1"].Kill()
	s.nodes["n1"].Launch()
	s.ready()
	for driver, a := range s.read("n1") {
		if was := before[driver]; a.ID != was.ID || a.TaskStates["t"].Restarts != 0 {
			t.Errorf("the restart of the agent has changed %s: %+v", driver, a)
		}
		log := "/srv/data/log"
		if driver == "raw_exec" {
			log = "local/data/log"
		}
		s.Eventually(harness.Patience, "a command in the task of "+driver+" reads and writes the volume", func() bool {
			out, code := s.CLI("alloc", "exec", a.ID, "/bin/sh", "-c", "touch "+filepath.Dir(log)+"/after && cat "+log)
			return code == 0 && out == driver+" on n1\n"
		})
	}

	s.stop(drivers...)
	s.stop("shelf")
	s.plug("n2")
	for _, driver := range drivers {
		s.Run(scribe(driver))
	}
	for driver, a := range s.read("n1", "n2") {
		if a.NodeName != "n2" {
			t.Errorf("%s runs on %s", driver, a.NodeName)
		}
	}
	s.stop(drivers...)
	for _, driver := range drivers {
		s.Eventually(harness.Patience, "the volume of "+driver+" is deleted", func() bool {
			_, code := s.CLI("volume", "delete", driver)
			return code == 0
		})
	}
	s.stop("shelf")
}
