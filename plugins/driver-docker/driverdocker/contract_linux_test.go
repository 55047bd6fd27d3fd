// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest"
	"github.com/drover-project/drover/sdk/plugin"
)

// contract is what the suite needs. An init passes signals on: process 1 of a
// container ignores those that it has no handler for.
func contract(d *dockertest.Daemon) drivertest.Options {
	return drivertest.Options{
		Name: "docker",
		// The daemon keeps as much as the suite writes: what it throws away no driver can copy.
		Config:  map[string]any{"endpoint": d.Endpoint(), "logging": map[string]any{"config": map[string]any{"max-size": "100m", "max-file": "1"}}},
		Script:  func(s string) map[string]any { return with(script(s), map[string]any{"image": dockertest.BusyBox}) },
		Timeout: 2 * time.Minute,
		Task:    func(tc *driver.TaskConfig) { tc.AllocID = tc.ID; delete(tc.Env, "PATH") },
	}
}

func TestThePluginProcessKeepsTheContract(t *testing.T) {
	opts := contract(dockerd(t))
	opts.Binary = filepath.Join(t.TempDir(), "driver-docker")
	opts.Env = []string{plugin.StateDirEnv + "=" + t.TempDir()}
	if out, err := exec.Command("go", "build", "-o", opts.Binary, "github.com/drover-project/drover/plugins/driver-docker").CombinedOutput(); err != nil {
		t.Fatalf("build: %s", out)
	}
	drivertest.Run(t, opts)
}
