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

// isolatedDriver is a job that runs the local driver as an isolated task.
const isolatedDriver = `
job "disk" {
  group "g" {
    task "t" {
      driver = "exec"
      user   = "root"
      config {
        command = "/opt/drover-plugins"
        args    = ["drover-csi-local", "-data-dir", "/local/disk", "-node-id", "n1"]
        cap_add = ["sys_admin", "sys_resource"]
      }
      csi_plugin {
        id             = "org.example.disk"
        type           = "monolith"
        health_timeout = "2m"
      }
      resources {
        cpu    = 50
        memory = 128
      }
    }
  }
}`

// kitchen is a job of two allocs. Each has a volume of its own, an isolated and a plain task
// use it, and both have one that all only read.
const kitchen = `
job "kitchen" {
  group "g" {
    count = 2
    volume "own" {
      type            = "csi"
      source          = "own"
      per_alloc       = true
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      mount_options {
        fs_type     = "ext4"
        mount_flags = ["noatime"]
      }
    }
    volume "books" {
      type            = "csi"
      source          = "books"
      read_only       = true
      access_mode     = "single-node-multi-writer"
      attachment_mode = "file-system"
    }
    volume "raw" {
      type            = "csi"
      source          = "raw"
      per_alloc       = true
      access_mode     = "single-node-writer"
      attachment_mode = "block-device"
    }
    task "isolated" {
      driver = "exec"
      user   = "root"
      config {
        command = "/bin/sh"
        args = ["-c", "echo isolated $NOMAD_ALLOC_INDEX >> /srv/own/log; grep -o ' /srv/own ext4 rw[^ ]*noatime' /proc/mounts; touch /srv/books/x 2>/dev/null || echo books are read-only; test -b /dev/raw && echo block $NOMAD_ALLOC_INDEX | dd of=/dev/raw conv=notrunc,fsync 2>/dev/null && echo wrote; exec sleep 600"]
      }
      volume_mount {
        volume           = "own"
        destination      = "/srv/own"
        propagation_mode = "host-to-task"
      }
      volume_mount {
        volume      = "books"
        destination = "/srv/books"
      }
      volume_mount {
        volume      = "raw"
        destination = "/dev/raw"
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
        args = ["-c", "grep plain local/own/log; until grep \"isolated $NOMAD_ALLOC_INDEX\" local/own/log; do sleep 0.1; done; echo plain $NOMAD_ALLOC_INDEX >> local/own/log; until head -c 7 \"$NOMAD_TASK_DIR/raw\" | grep block; do sleep 0.1; done; exec sleep 600"]
      }
      volume_mount {
        volume      = "own"
        destination = "local/own"
      }
      volume_mount {
        volume      = "raw"
        destination = "${NOMAD_TASK_DIR}/raw"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`

// csiVolume is the specification of a volume of the driver.
func csiVolume(id, access, attachment string) string {
	return fmt.Sprintf(`
id           = %q
name         = %[1]q
type         = "csi"
plugin_id    = "org.example.disk"
capacity_min = "8MiB"
capability {
  access_mode     = %q
  attachment_mode = %q
}
`, id, access, attachment)
}

// leftovers are the loop devices of the test's volumes that are still mounted.
func (a *agent) leftovers() (out []string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, a.Dir) && (strings.Contains(line, " - ext4 /dev/loop") || strings.Contains(line, "per-alloc")) {
			out = append(out, line)
		}
	}
	return out
}

// TestTasksOfAllKindsUseVolumesOfADriverThatIsAnIsolatedTask has the driver in exec and its
// volumes, one of them a block device, in exec and raw_exec.
func TestTasksOfAllKindsUseVolumesOfADriverThatIsAnIsolatedTask(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skipf("mkfs.ext4 is not installed: %v", err)
	}
	a := newAgent(t).withCSI()
	a.Plugin("driver-exec", fmt.Sprintf("exec %s/driver-exec \"$@\"", harness.Bin()))
	dirs := []string{fmt.Sprintf("%q = \"/opt\"", harness.Bin())}
	for _, dir := range []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/sbin", "/usr"} {
		dirs = append(dirs, fmt.Sprintf("%q = %[1]q", dir))
	}
	a.Configure("client {\n  options = { \"user.denylist\" = \"nobody-is-denied\" }\n}\n") // root is, otherwise
	a.Configure("plugin \"exec\" {\n  config {\n    allow_caps = [\"all\"]\n    chroot_env {\n" + strings.Join(dirs, "\n") + "\n    }\n  }\n}\n")
	a.start()
	a.Run(isolatedDriver)
	a.Eventually(harness.Patience, "the node reports the driver", func() bool {
		r := a.storage("org.example.disk")
		return r != nil && r.Healthy
	})
	for id, modes := range map[string][2]string{
		"own[0]": {"single-node-writer", "file-system"}, "own[1]": {"single-node-writer", "file-system"}, "books": {"single-node-multi-writer", "file-system"},
		"raw[0]": {"single-node-writer", "block-device"}, "raw[1]": {"single-node-writer", "block-device"},
	} {
		a.Write("volume.hcl", 0o600, csiVolume(id, modes[0], modes[1]))
		a.Must("volume", "create", a.Dir+"/volume.hcl")
	}
	a.Write("volume.hcl", 0o600, strings.Replace(csiVolume("twin", "single-node-multi-writer", "file-system"), `name         = "twin"`, `name         = "books"`, 1))
	if out, code := a.CLI("volume", "create", a.Dir+"/volume.hcl"); code == 0 || !strings.Contains(out, `is volume "books"`) {
		t.Errorf("one volume of the driver has two ids: %d, %s", code, out)
	}
	a.Run(kitchen)
	says := func(task, want string) {
		t.Helper()
		for _, x := range a.Await("kitchen", "running", 2) {
			index := x.Name[strings.LastIndex(x.Name, "[")+1 : len(x.Name)-1]
			want := strings.ReplaceAll(want, "#", index)
			var out []byte
			a.Eventually(harness.Patience, "task "+task+" of "+x.Name+" says "+want, func() bool {
				out, _ = os.ReadFile(a.Path(x.ID, "alloc/logs/"+task+".stdout.0")) // it may not exist yet
				return string(out) == want || strings.HasSuffix(want, "*") && strings.HasPrefix(string(out), want[:len(want)-1])
			})
		}
	}
	says("isolated", " /srv/own ext4 rw*")
	says("plain", "isolated #\nblock #\n")
	for _, x := range a.Await("kitchen", "running", 2) {
		out, _ := os.ReadFile(a.Path(x.ID, "alloc/logs/isolated.stdout.0"))
		if !strings.HasSuffix(string(out), "noatime\nbooks are read-only\nwrote\n") {
			t.Errorf("the isolated task says %s", out)
		}
		if got, err := a.Slow("alloc", "exec", "-task", "plain", x.ID, "cat", "local/own/log"); err != nil || !strings.Contains(got, "isolated") || !strings.Contains(got, "plain") {
			t.Errorf("a command beside the plain task reads %s, %v", got, err)
		}
	}
	before := a.Await("kitchen", "running", 2)
	a.Kill()
	a.Start()
	for _, x := range a.Await("kitchen", "running", 2) {
		for task, s := range x.TaskStates {
			if s.Restarts != 0 || x.ID != before[0].ID && x.ID != before[1].ID {
				t.Errorf("the kill of the agent changed %s of %s: %+v", task, x.Name, s)
			}
		}
	}
	a.Must("job", "stop", "-purge", "-detach=false", "kitchen")
	a.Eventually(harness.Patience, "the job has ended", func() bool { return len(a.Allocs("kitchen", "running")) == 0 })
	a.Run(kitchen)
	says("plain", "plain #\nisolated #\n*") // what the allocs before have written
	a.Must("job", "stop", "-purge", "-detach=false", "kitchen")
	for _, id := range []string{"own[0]", "own[1]", "books", "raw[0]", "raw[1]"} {
		a.Eventually(harness.Patience, id+" is deleted when nothing uses it", func() bool {
			_, code := a.CLI("volume", "delete", id)
			return code == 0
		})
	}
	a.Must("job", "stop", "-purge", "disk")
	a.Eventually(harness.Patience, "no mount of a volume is left", func() bool { return len(a.leftovers()) == 0 })
}
