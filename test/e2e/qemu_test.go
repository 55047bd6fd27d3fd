// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// machineTime is the time limit for an emulated guest to boot or to shut down while
// other tests run.
const machineTime = 3 * time.Minute

// qemuAgent starts an agent whose tasks may use the images of a directory, and
// returns the path of the small guest's image in it.
func qemuAgent(t *testing.T) (a *agent, image string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a virtual machine")
	}
	a = newAgent(t)
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("qemu-system-x86_64 is missing: install qemu-system-x86")
	}
	image = filepath.Join(a.Dir, "images", "guest.img")
	if err := os.Mkdir(filepath.Dir(image), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("../../plugins/driver-qemu/guest/make.sh", image).CombinedOutput()
	var exit *exec.ExitError
	const missing = 77
	if errors.As(err, &exit) && exit.ExitCode() == missing {
		t.Skip(strings.TrimSpace(string(out)))
	}
	if err != nil {
		t.Fatalf("make the guest's image: %s", out)
	}
	a.Plugin("driver-qemu", fmt.Sprintf("export DROVER_PLUGIN_STATE_DIR=%s/state DROVER_SUPERVISOR_IDLE=2s; exec %s/drover-plugins driver-qemu", a.Dir, harness.Bin()))
	a.Configure(fmt.Sprintf("plugin \"qemu\" {\n  config { image_paths = [%q] }\n}\n", filepath.Dir(image)))
	a.start()
	a.Eventually(20*time.Second, "the qemu driver is healthy", func() bool {
		nodes, _, err := a.Nodes(a.Context(), nil)
		return err == nil && len(nodes) == 1 && nodes[0].Drivers["qemu"] != nil && nodes[0].Drivers["qemu"].Healthy
	})
	return a, image
}

const machine = `job %q {
  type = "service"
  group "g" {
    network {
      port "http" { to = 80 }
    }
` + harness.OnlyOnce + `    task "t" {
      driver       = "qemu"
      kill_timeout = "170s"
      config {
        image_path        = %q
        args              = ["-snapshot"]
        graceful_shutdown = true
      }
      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}`

func TestAVirtualMachineServesAndOutlivesKillsOfAgentAndPlugin(t *testing.T) {
	a, image := qemuAgent(t)
	a.Run(fmt.Sprintf(machine, "vm", image))
	alloc := a.Await("vm", model.AllocClientStatusRunning, 1)[0].ID
	full, _, err := a.Allocation(a.Context(), alloc, nil)
	if err != nil {
		t.Fatal(err)
	}
	port := full.AllocatedResources.Shared.Ports[0]
	served := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/", port.HostIP, port.Value), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		return err == nil && string(body) == "hello from the guest\n"
	}
	a.Eventually(machineTime, "the guest serves", served)
	machines := a.Processes("-drive file=json:")
	if len(machines) != 1 {
		t.Fatalf("machines %v, want one", machines)
	}
	plugin := func() []int { return a.Processes("drover-plugins driver-qemu") }
	before := plugin()
	if len(before) != 1 {
		t.Fatalf("plugin processes %v, want one", before)
	}
	if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.Eventually(20*time.Second, "another plugin is in its place", func() bool { now := plugin(); return len(now) == 1 && now[0] != before[0] })
	a.Kill()
	a.Eventually(machineTime, "the guest serves while there is no agent", served)
	a.start()
	a.Await("vm", model.AllocClientStatusRunning, 1)
	if now := a.Processes("-drive file=json:"); len(now) != 1 || now[0] != machines[0] {
		t.Errorf("machines %v, want still %v", now, machines)
	}
	a.Eventually(machineTime, "the guest serves after a kill of the agent", served)
	a.Must("job", "stop", "-detach", "vm")
	a.Eventually(machineTime, "the guest has ended", func() bool { return len(a.Allocs("vm", model.AllocClientStatusComplete)) == 1 })
	if out, err := os.ReadFile(a.Path(alloc, "alloc/logs/t.stdout.0")); err != nil || !strings.Contains(string(out), "power button") {
		t.Errorf("the guest was not asked: %v, %q", err, out)
	}
	a.Run(fmt.Sprintf(machine, "spy", "/etc/shadow"))
	spy := a.Await("spy", model.AllocClientStatusFailed, 1)[0].ID
	if out := a.Must("alloc", "status", spy); !strings.Contains(out, "image_paths") {
		t.Errorf("the refusal does not say why:\n%s", out)
	}
}
