// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// containerDriver is a job that runs the local driver in a container.
const containerDriver = `job "disk" {
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image      = "busybox:drover"
        entrypoint = ["/opt/drover-plugins"]
        args       = ["drover-csi-local", "-data-dir", "/local/disk", "-node-id", "n1"]
        cap_add    = ["sys_admin"]
        volumes    = ["%s:/opt:ro"]
      }
      csi_plugin {
        id             = "org.example.disk"
        type           = "monolith"
        health_timeout = "2m"
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}`

// mixed is a job whose container and plain task share a volume.
const mixed = `job "mixed" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "container" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        command = "/bin/sh"
        args    = ["-c", "echo container >> /srv/data/log; exec sleep 600"]
      }
      volume_mount {
        volume      = "data"
        destination = "/srv/data"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "plain" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "until cat local/data/log; do sleep 0.1; done; exec sleep 600"]
      }
      volume_mount {
        volume      = "data"
        destination = "local/data"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`

func TestACSIDriverInAContainerBringsVolumesToContainersAndPlainTasks(t *testing.T) {
	a := newAgent(t)
	d := a.dockerd()
	a.Plugin("csi", fmt.Sprintf("exec %s/drover-plugins csi \"$@\"", harness.Bin()))
	a.dockerAt(d, "allow_caps = [\"all\"]\n    volumes {\n      enabled = true\n    }")
	a.Run(fmt.Sprintf(containerDriver, harness.Bin()))
	a.Eventually(harness.Patience, "the node reports the driver", func() bool {
		nodes, _, err := a.Nodes(a.Context(), nil)
		if err != nil || len(nodes) != 1 {
			return false
		}
		n, _, err := a.Node(a.Context(), nodes[0].ID, nil)
		return err == nil && n.CSINodePlugins["org.example.disk"] != nil && n.CSINodePlugins["org.example.disk"].Healthy
	})
	a.Must("volume", "create", a.Write("volume.hcl", 0o600, `
id        = "data"
name      = "data"
type      = "csi"
plugin_id = "org.example.disk"
parameters { kind = "directory" }
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`))
	reads := func(want string) {
		t.Helper()
		alloc := a.Await("mixed", model.AllocClientStatusRunning, 1)[0].ID
		a.Eventually(harness.Patience, "the plain task reads what containers wrote", func() bool {
			out, _ := os.ReadFile(a.Path(alloc, "alloc/logs/plain.stdout.0")) // it may not exist yet
			return string(out) == want
		})
	}
	a.Run(mixed)
	reads("container\n")
	first := a.Await("mixed", model.AllocClientStatusRunning, 1)[0]
	a.Kill()
	a.Start()
	again := a.Await("mixed", model.AllocClientStatusRunning, 1)[0]
	for task, s := range again.TaskStates {
		if s.Restarts != 0 || again.ID != first.ID {
			t.Errorf("the kill of the agent changed %s of %s: %+v", task, again.ID, s)
		}
	}
	a.Must("job", "stop", "-purge", "-detach=false", "mixed")
	a.Eventually(harness.Patience, "the job has ended", func() bool { return len(a.Allocs("mixed", model.AllocClientStatusRunning)) == 0 })
	a.Run(mixed)
	next := a.Await("mixed", model.AllocClientStatusRunning, 1)[0].ID
	a.Eventually(harness.Patience, "the next alloc finds the data", func() bool {
		out, _ := a.CLI("alloc", "exec", "-task", "plain", next, "cat", "local/data/log")
		return strings.Contains(out, "container\ncontainer\n")
	})
	a.Must("job", "stop", "-purge", "-detach=false", "mixed")
	a.Eventually(harness.Patience, "the volume is deleted when nothing uses it", func() bool {
		_, code := a.CLI("volume", "delete", "data")
		return code == 0
	})
	a.Must("job", "stop", "-purge", "disk")
}
