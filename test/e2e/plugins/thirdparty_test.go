// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
)

// thirdParty builds a third-party plugin for Nomad from the module proxy, in a
// separate module. If the proxy does not have it (in this environment it answers
// 403), the test is skipped with that reason.
func thirdParty(t *testing.T, module string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := run("mod", "init", "example.com/thirdparty"); err != nil {
		t.Fatalf("make a module: %v\n%s", err, out)
	}
	if out, err := run("get", module+"@latest"); err != nil {
		t.Skipf("the module proxy does not give out %s: %s", module, out)
	}
	binary := filepath.Join(dir, filepath.Base(module))
	if out, err := run("build", "-o", binary, module); err != nil {
		t.Fatalf("build %s: %v\n%s", module, err, out)
	}
	return binary
}

// thirdPartyAgent starts an agent with the plugin and its config block.
func thirdPartyAgent(t *testing.T, binary, block string) *agent {
	t.Helper()
	a := newAgent(t)
	a.Plugin(filepath.Base(binary), "exec "+binary+` "$@"`)
	a.Configure(block)
	a.start()
	return a
}

func TestTheSkeletonDriverRunsUnmodified(t *testing.T) {
	binary := thirdParty(t, "github.com/hashicorp/nomad-skeleton-driver-plugin")
	a := thirdPartyAgent(t, binary, "plugin \"nomad-skeleton-driver-plugin\" {\n  config { shell = \"bash\" }\n}\n")
	a.Run(`job "greeter" {
  group "g" {
    task "t" {
      driver = "hello-world-example"
      config { greeting = "good day" }
    }
  }
}`)
	id := a.Await("greeter", model.AllocClientStatusRunning, 1)[0].ID
	a.Eventually(20*time.Second, "it greets", func() bool {
		out, _ := a.CLI("alloc", "logs", id)
		return strings.Contains(out, "good day")
	})
}

func TestThePodmanDriverRunsUnmodified(t *testing.T) {
	binary := thirdParty(t, "github.com/hashicorp/nomad-driver-podman")
	for _, tool := range []string{"podman", "busybox"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: apt-get install podman busybox-static", tool)
		}
	}
	image, err := dockertest.NewImage("podman")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "image.tar")
	body, err := image.Archive("localhost/drover-busybox:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archive, body, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("podman", "load", "-i", archive).CombinedOutput(); err != nil {
		t.Fatalf("load the image: %v\n%s", err, out)
	}
	socket := filepath.Join(dir, "podman.sock")
	ctx, cancel := context.WithCancel(t.Context())
	service := exec.CommandContext(ctx, "podman", "system", "service", "--time", "0", "unix://"+socket)
	// Podman's default exceeds the hard limits of small machines.
	conf := filepath.Join(dir, "containers.conf")
	if err := os.WriteFile(conf, []byte("[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	service.Env = append(os.Environ(), "CONTAINERS_CONF="+conf)
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = service.Wait() })
	a := thirdPartyAgent(t, binary, fmt.Sprintf("plugin \"nomad-driver-podman\" {\n  config { socket_path = \"unix://%s\" }\n}\n", socket))
	a.Run(`job "pod" {
  group "g" {
    task "t" {
      driver = "podman"
      config {
        image   = "localhost/drover-busybox:1"
        command = "/bin/sh"
        args    = ["-c", "echo in a pod; sleep 600"]
      }
    }
  }
}`)
	id := a.Await("pod", model.AllocClientStatusRunning, 1)[0].ID
	a.Eventually(20*time.Second, "its output is in its log", func() bool {
		out, _ := a.CLI("alloc", "logs", id)
		return strings.Contains(out, "in a pod")
	})
	if out := a.Must("alloc", "exec", id, "/bin/echo", "hello"); !strings.Contains(out, "hello") {
		t.Errorf("exec said %q", out)
	}
	a.Kill()
	a.start()
	if got := a.Await("pod", model.AllocClientStatusRunning, 1); got[0].ID != id {
		t.Errorf("alloc %s runs, want %s", got[0].ID, id)
	}
}
