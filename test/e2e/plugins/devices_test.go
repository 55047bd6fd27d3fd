// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/e2e/harness"
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
        args    = ["-c", "echo mine is $FILE_DEVICES for $FILE_LABEL; sleep 600"]
      }
      resources {
        device "drover/file" {
          config { label = "${NOMAD_JOB_NAME}" }
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
	plugin := filepath.Join(a.Dir, "file-plugin")
	harness.Build(t, plugin, "sdk/device/v1/devicetest/testdata/device-file")
	a.Plugin("device-file", "exec "+plugin)
	a.Write("devices/small", 0o600, "tiny")
	a.Write("devices/one", 0o600, strings.Repeat("x", 2048))
	a.Configure("plugin \"file\" {\n  config { dir = \"" + a.Dir + "/devices\" }\n}\n")
	a.start()
	a.Run(deviceJob)
	first := a.Await("gpu", "running", 1)[0]
	a.Eventually(10*time.Second, "it sees its device", func() bool {
		out, _ := a.CLI("alloc", "logs", first.ID)
		return strings.Contains(out, "mine is one for gpu")
	})
	if all := a.Allocs("gpu", ""); len(all) != 1 {
		t.Fatalf("one device that is large enough, and %d allocs", len(all))
	}
	// Another device appears: the node reports it, and the waiting alloc runs.
	a.Write("devices/two", 0o600, strings.Repeat("y", 4096))
	a.Await("gpu", "running", 2)
	held := func() (names []string) {
		found, err := filepath.Glob(a.Data + "/client/plugin-state/*/held/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			names = append(names, filepath.Base(f))
		}
		return names
	}
	if got := strings.Join(held(), " "); got != "one two" {
		t.Errorf("the plugin holds %q", got)
	}
	if out := a.Must("plugin", "status", "device-file"); !strings.Contains(out, "drover/file/") || !strings.Contains(out, "alloc "+first.ID[:8]+", task t") {
		t.Errorf("plugin status does not show who holds which device:\n%s", out)
	}
	if out, code := a.CLI("job", "stop", "gpu"); code != 0 {
		t.Fatal(out)
	}
	a.Eventually(30*time.Second, "its devices are released", func() bool { return len(held()) == 0 })
}
