// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package networkcni

import (
	"os/exec"
	"syscall"
)

// endWithChildren makes the end of a command's context the end of its children too, such as
// the program of addresses that it waits for.
func endWithChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
