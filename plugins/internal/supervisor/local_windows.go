// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build windows

package supervisor

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/drover-project/drover/sdk/errdefs"
)

func prepare(_ *exec.Cmd, u *User) error {
	if u != nil {
		return errdefs.Unimplementedf("running a task as another user is not possible on Windows; leave user empty")
	}
	return nil
}

// killTree kills the task's process. An error means that it has ended.
func killTree(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func signalTree(cmd *exec.Cmd, signal int) error { return signalMain(cmd, signal) }

func signalMain(cmd *exec.Cmd, signal int) error { return cmd.Process.Signal(syscall.Signal(signal)) }

func exitOf(state *os.ProcessState) Exit { return Exit{Code: state.ExitCode()} }
