// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// detach gives the process a session of its own, so that neither the terminal's
// signals nor the end of the agent's session reach it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// isBusy: a file cannot be executed while somebody writes to it.
func isBusy(err error) bool { return errors.Is(err, syscall.ETXTBSY) }
