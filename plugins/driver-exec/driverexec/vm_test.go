// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTheSameHoldsWithCgroupVersion2 runs the tests that depend on cgroups in a
// virtual machine with cgroup v2 only and without a JVM; see ../vmtest/run.sh.
func TestTheSameHoldsWithCgroupVersion2(t *testing.T) {
	t.Parallel() // it waits for a virtual machine
	if testing.Short() {
		t.Skip("it starts a virtual machine")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	const what = "NoTaskBreaksOut|TooMuchMemory|BecomeLimits|MemoryMaxIs|StatsOfAn|OutliveTheSupervisor|OrphansOf|IsInsideIt|DevicesAndMounts|" +
		"CoresOfItsOwn|CoresOfTheirOwn|TheCgroupsThatItNames|WhichNamespaces|WithoutAJVM|WereKilledWhile"
	cmd := exec.CommandContext(ctx, "../vmtest/run.sh", "-test.v", "-test.run", what)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // the machine as well
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	const missing = 77
	if errors.As(err, &exit) && exit.ExitCode() == missing {
		t.Skip(strings.TrimSpace(string(out)))
	}
	if err != nil || strings.Contains(string(out), "--- SKIP") || strings.Count(string(out), "--- PASS") < 17 {
		t.Fatalf("%v\n%s", err, out)
	}
}
