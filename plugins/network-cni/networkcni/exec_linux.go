// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkcni

import (
	"os/exec"
	"syscall"
)

// endWithPlugin makes the end of the thread that starts a command, which is locked while the
// command runs, the end of the command. So a killed plugin leaves no program that goes on making
// a network beside those of the next process.
func endWithPlugin(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
