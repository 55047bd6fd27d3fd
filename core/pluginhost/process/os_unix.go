// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// detach gives the process a session of its own, so that neither the terminal's
// signals nor the end of the agent's session reach it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killSession ends what a process that detach began has started, but for what has
// left its group.
func killSession(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // an error means that there is nothing left

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

// ownership says whose a file is, beside who we are.
func ownership(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf(", user %d, group %d (the agent is %d, %d)", st.Uid, st.Gid, os.Getuid(), os.Getgid())
}

// diedItself reports whether a signal ended a process that is not the one with
// which we end those whose handshake does not fit.
func diedItself(state *os.ProcessState) bool {
	if state == nil {
		return false
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() != syscall.SIGKILL
}

// isRefused: nobody listens on a socket.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// IsBusy reports whether a file cannot be executed because somebody writes to it.
func IsBusy(err error) bool { return errors.Is(err, syscall.ETXTBSY) }
