// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/device-nvidia/nvml/nvmltest"
	"github.com/drover-project/drover/test/e2e/harness"
)

const gpuJob = `
job "train" {
  type = "batch"
  group "g" {
    count = 3
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo mine is $NVIDIA_VISIBLE_DEVICES; sleep 600"]
      }
      resources {
        device "nvidia/gpu" {
          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "10 GiB"
          }
          constraint {
            attribute = "${device.attr.mig}"
            value     = "false"
          }
          affinity {
            attribute = "${device.attr.compute_capability}"
            value     = "7.5"
            weight    = 50
          }
        }
      }
    }
  }
}
`

// The library is a fake (see nvmltest) with two whole GPUs.
func TestJobsGetNVIDIAGPUsEachItsOwn(t *testing.T) {
	a := newAgent(t)
	plugin := filepath.Join(a.Dir, "device-nvidia")
	harness.Build(t, plugin, "plugins/device-nvidia")
	a.Plugin("device-nvidia", "exec "+plugin)
	a.Plugin("stats-host", "exec "+harness.Bin()+"/drover-plugins stats-host")
	lib := nvmltest.Build(t)
	a.Configure("plugin \"nvidia-gpu\" {\n  config {\n    library = \"" + lib + "\"\n    fingerprint_period = \"200ms\"\n  }\n}\n")
	a.start()
	a.Run(gpuJob)
	seen := map[string]bool{}
	for _, one := range a.Await("train", "running", 2) {
		a.Eventually(10*time.Second, "it sees its GPU", func() bool {
			out, _ := a.CLI("alloc", "logs", one.ID)
			_, id, ok := strings.Cut(out, "mine is ")
			seen[strings.TrimSpace(id)] = ok
			return ok
		})
	}
	if len(seen) != 2 {
		t.Errorf("two tasks share a GPU: %v", seen)
	}
	if all := a.Allocs("train", ""); len(all) != 2 {
		t.Errorf("two whole GPUs, and %d allocs", len(all))
	}
	// The usage is reported for the node and for the task that has the GPU.
	first := a.Await("train", "running", 2)[0].ID
	for _, args := range [][]string{{"node", "status", "-self", "-stats"}, {"alloc", "status", "-stats", first}} {
		a.Eventually(20*time.Second, strings.Join(args, " ")+" tells of GPUs", func() bool {
			out, _ := a.CLI(args...)
			return strings.Contains(out, "nvidia/gpu/Tesla T4[GPU-") && strings.Contains(out, "2048 / 15360 MiB") && strings.Contains(out, "Power usage")
		})
	}
	// A lost GPU is shown as unhealthy, and its task keeps running.
	nvmltest.Say(t, lib, "lost-1", "")
	a.Eventually(20*time.Second, "the lost GPU is shown as unhealthy", func() bool {
		out, _ := a.CLI("node", "status", "-self", "-json")
		return strings.Contains(out, "GPU is lost")
	})
	a.Await("train", "running", 2)
}
