// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const deviceJob = `
job "gpu" {
  type = "batch"
  group "g" {
    count = 2
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo mine is $FILE_DEVICES; sleep 600"]
      }
      resources {
        device "drover/file" {
          constraint {
            attribute = "${device.attr.size}"
            operator  = ">="
            value     = "1 KiB"
          }
        }
      }
    }
  }
}
`

func TestTasksGetDevicesOfAPluginAndNoneTwice(t *testing.T) {
	a := newAgent(t)
	plugin := filepath.Join(a.dir, "file-plugin")
	build := exec.Command("go", "build", "-o", plugin, "../../sdk/device/v1/devicetest/testdata/device-file")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	a.plugin("device-file", "exec "+plugin)
	a.write("devices/small", 0o600, "tiny")
	a.write("devices/one", 0o600, strings.Repeat("x", 2048))
	a.configure("plugin \"file\" {\n  config { dir = \"" + a.dir + "/devices\" }\n}\n")
	a.start()
	a.run(deviceJob)
	first := a.await("gpu", "running", 1)[0]
	a.eventually(10*time.Second, "it sees its device", func() bool {
		out, _ := a.cli("alloc", "logs", first.ID)
		return strings.Contains(out, "mine is one")
	})
	if all := a.allocs("gpu", ""); len(all) != 1 {
		t.Fatalf("one device that is large enough, and %d allocs", len(all))
	}
	// Another device appears: the node reports it, and the waiting alloc runs.
	a.write("devices/two", 0o600, strings.Repeat("y", 4096))
	a.await("gpu", "running", 2)
}
