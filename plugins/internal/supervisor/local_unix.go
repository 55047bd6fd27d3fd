// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix && !linux

package supervisor

import (
	"os"
	"os/exec"
	"syscall"
)

func prepare(cmd *exec.Cmd, u *User) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if u != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	return nil
}

// killTree kills the task's process group. An error means that it has ended.
func killTree(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func signalTree(cmd *exec.Cmd, signal int) error {
	return syscall.Kill(-cmd.Process.Pid, syscall.Signal(signal))
}

func signalMain(cmd *exec.Cmd, signal int) error { return cmd.Process.Signal(syscall.Signal(signal)) }

func exitOf(state *os.ProcessState) Exit {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Exit{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
	}
	return Exit{Code: state.ExitCode()}
}
