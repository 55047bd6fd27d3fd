// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest"
	"github.com/drover-project/drover/sdk/isolation"

	"github.com/drover-project/drover/examples/plugins/sandbox/sandbox"
)

// TestMain makes the test's executable act as the runner of a task, as the plugin does.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == sandbox.RunnerCommand {
		os.Exit(sandbox.Run(os.Args[2]))
	}
	os.Exit(m.Run())
}

// TestContract checks every rule of the contract: in this process, over gRPC, and
// with a plugin process that is killed.
func TestContract(t *testing.T) {
	if why := isolation.Unavailable(); why != "" {
		t.Skip(why)
	}
	binary := filepath.Join(t.TempDir(), "sandbox")
	build := exec.Command("go", "build", "-o", binary, "github.com/drover-project/drover/examples/plugins/sandbox")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	drivertest.Run(t, drivertest.Options{
		New:    func(*testing.T) driver.Driver { return sandbox.New() },
		Binary: binary,
		Name:   sandbox.Name,
		Script: func(s string) map[string]any {
			return map[string]any{"command": "/bin/sh", "args": []any{"-c", s}}
		},
		Task: func(config *driver.TaskConfig) { // as the agent does: the task's user owns its directories
			config.Env["NOMAD_TASK_DIR"] = "/local"
			for _, dir := range []string{"local", "secrets", "tmp"} {
				if err := os.Chmod(filepath.Join(config.TaskDir, dir), 0o777); err != nil {
					t.Error(err)
				}
			}
		},
		Parallel: true,
	})
}
