// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package quota_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/internal/testkit"
)

// quotas reports whether this machine mounts file systems with project quotas.
func quotas(t *testing.T) (has bool) {
	t.Run("look for quotas", func(t *testing.T) {
		testkit.FileSystem(t, "ext4", "prjquota", kinds["ext4"])
		has = true
	})
	return has
}

// TestTheSameHoldsWithAKernelThatHasQuotas runs the tests of limits in a virtual machine,
// unless this one can run them.
func TestTheSameHoldsWithAKernelThatHasQuotas(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a virtual machine")
	}
	if quotas(t) {
		t.Skip("this machine has them")
	}
	t.Parallel() // it waits for a virtual machine
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../../plugins/driver-exec/vmtest/run.sh", "-test.v", "-test.run", "Limited|Moves")
	cmd.Env = append(os.Environ(), "PACKAGE=core/agent/quota", "MODULES=quota_v2 xfs", "DISKS=ext4:64M xfs:320M")
	cmd.Cancel = func() error { return unix.Kill(cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	const missing = 77
	if errors.As(err, &exit) && exit.ExitCode() == missing {
		t.Skip(strings.TrimSpace(string(out)))
	}
	if err != nil || strings.Contains(string(out), "--- SKIP") || strings.Count(string(out), "--- PASS") < 4 {
		t.Fatalf("%v\n%s", err, out)
	}
}
