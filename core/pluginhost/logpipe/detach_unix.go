// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package logpipe

import (
	"os/exec"
	"syscall"
)

// detach keeps the signals of the agent's terminal from the process.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
