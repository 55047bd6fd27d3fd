// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/test/e2e/harness"
)

// dirOn puts a directory of the agent's data on a file system with project quotas. It skips
// the test where the kernel has none.
func (a *agent) dirOn(name, kind string, size int64) {
	a.T.Helper()
	disk, at := testkit.FileSystem(a.T, kind, "prjquota", size), filepath.Join(a.Data, name)
	if err := os.MkdirAll(at, 0o755); err != nil {
		a.T.Fatal(err)
	}
	if err := unix.Mount(disk, at, "", unix.MS_BIND, ""); err != nil {
		a.T.Fatal(err)
	}
	a.T.Cleanup(func() {
		a.KillAll()
		for unix.Unmount(at, unix.MNT_DETACH) == nil { // what is mounted on it goes with it
		}
	})
}

// greedy is an isolated task that writes more than the disk of its group has. It keeps what it
// is told in a file that takes its space before.
const greedy = `job "greedy" {
  group "g" {
    ephemeral_disk { size = 20 }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "cd $NOMAD_TASK_DIR; touch wait; head -c 4096 /dev/zero > said; dd if=/dev/zero of=big bs=1M count=40 conv=fsync 2<>said; while [ -e wait ]; do sleep 0.1; done; rm big; dd if=/dev/zero of=small bs=1M count=5 conv=fsync && touch wrote; exec sleep 600"]
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
      resources {
        cpu    = 20
        memory = 64
      }
    }
  }
}`

// TestAnAllocCannotWriteMoreThanItsDisk has the allocs of an agent on each file system that can
// limit them. Where the kernel has no project quotas, a virtual machine has:
//
//	PACKAGE=test/e2e AGENT=1 MODULES="quota_v2 xfs" DISKS="ext4:256M xfs:512M" \
//		plugins/driver-exec/vmtest/run.sh -test.v -test.run "TestAnAllocCannotWriteMore|TestAHostVolumeCannotHave"
func TestAnAllocCannotWriteMoreThanItsDisk(t *testing.T) {
	const mebibyte = 1 << 20
	for kind, size := range map[string]int64{"xfs": 512 * mebibyte, "ext4": 256 * mebibyte} {
		t.Run(kind, func(t *testing.T) {
			a := newAgent(t)
			a.dirOn("alloc", kind, size)
			a.start()
			nodes, _, err := a.Nodes(a.Context(), nil)
			if err != nil || len(nodes) != 1 {
				t.Fatal(nodes, err)
			}
			if n, _, err := a.Node(a.Context(), nodes[0].ID, nil); err != nil || n.Attributes["storage.ephemeral_disk"] != "limited" {
				t.Errorf("the node says %q, %v", n.Attributes["storage.ephemeral_disk"], err)
			}
			a.Run(greedy)
			x := a.Await("greedy", model.AllocClientStatusRunning, 1)[0]
			local := func(name string) string { return a.Path(x.ID, "t/local/"+name) }
			a.Eventually(2*harness.Patience, "the task is told that its disk is full", func() bool {
				said, _ := os.ReadFile(local("said"))
				return strings.Contains(string(said), "No space left on device") || strings.Contains(string(said), "quota exceeded")
			})
			if info, err := os.Stat(local("big")); err != nil || info.Size() > 20*mebibyte {
				t.Errorf("it has written %v, %v", info, err)
			}
			a.Eventually(2*harness.Patience, "an event says so", func() bool {
				return strings.Contains(a.Must("alloc", "status", x.ID), model.TaskDiskExceeded)
			})
			if out := a.Must("alloc", "status", x.ID); !strings.Contains(out, "Writes fail until files are removed") {
				t.Errorf("alloc status says %s", out)
			}
			a.Run(harness.Shell("modest", "batch", 1, "", "dd if=/dev/zero of=$NOMAD_ALLOC_DIR/data/file bs=1M count=30 conv=fsync"))
			a.Await("modest", model.AllocClientStatusComplete, 1)

			a.Kill()
			a.start()
			if err := os.Remove(local("wait")); err != nil {
				t.Fatal(err)
			}
			a.Eventually(2*harness.Patience, "when it has removed the file, it can write again", func() bool {
				_, err := os.Stat(local("wrote"))
				return err == nil
			})
			if now := a.Await("greedy", model.AllocClientStatusRunning, 1)[0]; now.ID != x.ID || now.TaskStates["t"].Restarts != 0 {
				t.Errorf("the alloc was touched: %+v", now)
			}
			a.Must("job", "stop", "-purge", "greedy")
			a.Must("system", "gc")
		})
	}
}

// TestAHostVolumeCannotHaveMoreThanItsCapacity has the volumes of mkdir on each file system that
// can limit them, as above.
func TestAHostVolumeCannotHaveMoreThanItsCapacity(t *testing.T) {
	const mebibyte = 1 << 20
	for kind, size := range map[string]int64{"xfs": 512 * mebibyte, "ext4": 256 * mebibyte} {
		t.Run(kind, func(t *testing.T) {
			a := newAgent(t)
			a.dirOn("host_volumes", kind, size)
			a.start()
			create := func(capacity string, more ...string) string {
				t.Helper()
				text := strings.Join(append(more, `name = "data"`, `type = "host"`, `plugin_id = "mkdir"`, `capacity_max = "`+capacity+`"`,
					"capability {\n access_mode = \"single-node-writer\"\n attachment_mode = \"file-system\"\n}", "parameters {\n mode = \"0777\"\n}"), "\n")
				return a.Must("volume", "create", a.Write("data.volume.hcl", 0o644, text))
			}
			create("20MiB")
			all, _, err := a.HostVolumes(a.Context(), "", "", nil)
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			id := all[0].ID
			if out := a.Must("volume", "status", "-type", "host", id); !strings.Contains(out, "20 MiB") {
				t.Errorf("volume status says %s", out)
			}
			write := func(job, file string, mebibytes int) bool {
				t.Helper()
				a.Run(fmt.Sprintf(volumeWriter, job, file, mebibytes))
				x := a.Await(job, model.AllocClientStatusComplete, 1)[0]
				said, err := os.ReadFile(a.Path(x.ID, "t/local/said"))
				if err != nil {
					t.Fatal(err)
				}
				return string(said) == "0\n"
			}
			if write("much", "much", 30) {
				t.Error("30 MiB are in a volume of 20")
			}
			a.Kill()
			a.start()
			if write("again", "again", 10) {
				t.Error("after a restart of the agent, it is without a limit")
			}
			create("60MiB", `id = "`+id+`"`)
			if !write("room", "room", 30) {
				t.Error("it was enlarged, and has no room")
			}
			for _, job := range []string{"much", "again", "room"} {
				a.Must("job", "stop", "-purge", job)
			}
			a.Must("volume", "delete", "-type", "host", id)
		})
	}
}

// volumeWriter is a job that writes to a volume and says how that has ended.
const volumeWriter = `job %q {
  type = "batch"
  group "g" {
    volume "v" {
      type   = "host"
      source = "data"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "dd if=/dev/zero of=/v/%s bs=1M count=%d conv=fsync; echo $? > $NOMAD_TASK_DIR/said"]
      }
      volume_mount {
        volume      = "v"
        destination = "/v"
      }
      resources {
        cpu    = 20
        memory = 64
      }
    }
  }
}`
