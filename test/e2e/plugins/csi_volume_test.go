// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/e2e/harness"
)

// writerJob is a job that adds a line with its alloc's id to a file of a volume.
func writerJob(name string) string {
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
        args    = ["-c", "echo line of $NOMAD_JOB_NAME >>/srv/log; cat /srv/log; exec sleep 600"]
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

const databaseVolume = `
id           = "database"
name         = "database"
type         = "csi"
plugin_id    = "org.example.disk"
capacity_min = "20MiB"
capacity_max = "40MiB"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
secrets {
  key = "never-shown"
}
`

func TestAVolumeOfACSIDriverKeepsTheDataOfItsJobs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skipf("mkfs.ext4 is not installed: %v", err)
	}
	a := newAgent(t).withCSI()
	a.Plugin("driver-exec", fmt.Sprintf("exec %s/driver-exec \"$@\"", harness.Bin()))
	a.start()
	a.Run(a.localDriver("disk", "org.example.disk"))
	a.Eventually(harness.Patience, "the node reports the driver", func() bool {
		r := a.storage("org.example.disk")
		return r != nil && r.Healthy
	})
	a.Write("volume.hcl", 0o600, databaseVolume)
	a.Must("volume", "create", a.Dir+"/volume.hcl")
	if out := a.Must("volume", "status", "-type", "csi", "database"); !strings.Contains(out, "org.example.disk") || strings.Contains(out, "never-shown") {
		t.Errorf("volume status says %s", out)
	}

	a.Run(writerJob("first"))
	first := a.Await("first", "running", 1)[0]
	reads := func(job, want string) {
		t.Helper()
		a.Eventually(harness.Patience, job+" reads "+want, func() bool {
			out, _ := a.CLI("alloc", "logs", "-job", job)
			return strings.Contains(out, want)
		})
	}
	reads("first", "line of first")
	if out := a.Must("volume", "status", "-type", "csi", "database"); !strings.Contains(out, first.ID[:8]) {
		t.Errorf("the volume does not show its alloc: %s", out)
	}
	a.Kill()
	a.Start()
	if again := a.Await("first", "running", 1)[0]; again.ID != first.ID || again.TaskStates["t"].Restarts != 0 {
		t.Errorf("the kill of the agent changed the alloc: %+v", again)
	}

	a.Run(writerJob("second"))
	a.Eventually(harness.Patience, "the second writer waits and is told why", func() bool {
		out, _ := a.CLI("job", "status", "second")
		return strings.Contains(strings.ToLower(out), "volume")
	})
	if out, code := a.CLI("volume", "delete", "database"); code == 0 {
		t.Errorf("a volume in use was deleted: %s", out)
	}
	a.Must("job", "stop", "-purge", "first")
	a.Await("second", "running", 1)
	reads("second", "line of first\nline of second")
	a.Must("job", "stop", "-purge", "second")
	a.Eventually(harness.Patience, "the volume is deleted when nothing uses it", func() bool {
		_, code := a.CLI("volume", "delete", "database")
		return code == 0
	})
	a.Must("job", "stop", "-purge", "disk")
	a.Eventually(harness.Patience, "no mount of the volume is left", func() bool {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(mounts)) {
			if strings.Contains(line, a.Dir) && strings.Contains(line, " - ext4 /dev/loop") {
				return false
			}
		}
		return true
	})
}
