// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest"
	"github.com/drover-project/drover/sdk/plugin"
)

// contract returns the options of the conformance suite. Tasks run under an init,
// because process 1 of a container ignores signals for which it has no handler.
func contract(d *dockertest.Daemon) drivertest.Options {
	return drivertest.Options{
		Name: "docker",
		// The daemon must keep all output of the suite: the driver cannot copy what the
		// daemon discards.
		Config:  map[string]any{"endpoint": d.Endpoint(), "logging": map[string]any{"config": map[string]any{"max-size": "100m", "max-file": "1"}}},
		Script:  func(s string) map[string]any { return with(script(s), map[string]any{"image": dockertest.BusyBox}) },
		Timeout: 2 * time.Minute,
		Task:    func(tc *driver.TaskConfig) { tc.AllocID = tc.ID; delete(tc.Env, "PATH") },
	}
}

func TestThePluginProcessKeepsTheContract(t *testing.T) {
	opts := contract(dockerd(t))
	opts.Binary = filepath.Join(t.TempDir(), "driver-docker")
	state := t.TempDir()
	opts.Env = []string{plugin.StateDirEnv + "=" + state}
	t.Cleanup(func() { // a process that was killed in a start leaves its mounts to the sweep of the next
		left, err := filepath.Glob(filepath.Join(state, "*", "mounts", "*", "start-*"))
		if err != nil {
			t.Error(err)
		}
		for _, dir := range left {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				t.Errorf("unmount %s: %v", dir, err)
			}
		}
	})
	if out, err := exec.Command("go", "build", "-o", opts.Binary, "github.com/drover-project/drover/plugins/driver-docker").CombinedOutput(); err != nil {
		t.Fatalf("build: %s", out)
	}
	drivertest.Run(t, opts)
}
