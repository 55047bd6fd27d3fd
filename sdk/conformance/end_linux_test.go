// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package conformance_test

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
)

func TestWhatADriverWithADefectLeavesEndsWithTheCheck(t *testing.T) {
	var left *exec.Cmd
	r := conformance.Run(t.Context(), "name", "rule", time.Minute, func(t *conformance.T) {
		left = exec.Command("sleep", "1000")
		left.Env = []string{"NOMAD_TASK_DIR=" + t.TempDir() + "/web/local"}
		left.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := left.Start(); err != nil {
			t.Fatalf("start a process: %v", err)
		}
		t.Fatalf("nobody destroys it")
	})
	if r.Outcome != conformance.Failed || len(r.Problems) != 1 {
		t.Fatalf("%+v", r)
	}
	if err := left.Wait(); err == nil || left.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended as %v", err)
	}
}
