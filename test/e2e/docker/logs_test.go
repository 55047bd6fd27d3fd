// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

const keptByDaemon = `job "kept" {
  type = "service"
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        command = "/bin/sh"
        args    = ["-c", "echo first; echo aside >&2; while [ ! -e /local/go ]; do sleep 0.1; done; echo second; sleep 600"]
      }
      logs {
        disabled = true
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`

func TestLogsOfATaskWithoutFilesAreReadFromTheDaemonAndFollowedAcrossAKillOfThePlugin(t *testing.T) {
	a, _ := dockerAgent(t)
	a.Run(keptByDaemon)
	alloc := a.Await("kept", model.AllocClientStatusRunning, 1)[0].ID
	a.Eventually(harness.Patience, "the output is read", func() bool { return a.Must("alloc", "logs", alloc) == "first\n" })
	if got := a.Must("alloc", "logs", "-stderr", alloc); got != "aside\n" {
		t.Errorf("stderr is %q", got)
	}
	if got := a.Must("alloc", "logs", "-tail", "-c", "3", alloc); got != "st\n" {
		t.Errorf("the last 3 bytes are %q", got)
	}
	followed := filepath.Join(t.TempDir(), "followed")
	file, err := os.Create(followed)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*harness.Patience)
	defer cancel()
	cmd := a.Command(ctx, "alloc", "logs", "-f", alloc)
	cmd.Stdout = file // the other output is followed on stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got := func() string {
		body, err := os.ReadFile(followed)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it follows until then
		_ = cmd.Wait()
	})
	a.Eventually(harness.Patience, "the follower has what there is", func() bool { return got() == "first\n" })
	a.killPlugins()
	a.Eventually(harness.Patience, "a command runs in the task again", func() bool {
		_, code := a.CLI("alloc", "exec", alloc, "touch", "/local/go")
		return code == 0
	})
	a.Eventually(harness.Patience, "the follower goes on", func() bool { return got() == "first\nsecond\n" })
	a.Must("job", "stop", "-detach", "kept")
	a.Await("kept", model.AllocClientStatusComplete, 1)
	a.Eventually(harness.Patience, "the logs say that they went with the container", func() bool {
		out, code := a.CLI("alloc", "logs", alloc)
		return code != 0 && strings.Contains(out, "no longer has the output")
	})
}
