// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build windows

package pluginhost

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func killSession(int) {} // the process itself is ended by who calls this

func ownedByUs(fs.FileInfo) bool { return true }

func diedItself(*os.ProcessState) bool { return false } // there are no signals

func ownership(fs.FileInfo) string { return "" }

// What Windows says of a full disk.
const (
	errHandleDiskFull = syscall.Errno(39)
	errDiskFull       = syscall.Errno(112)
)

func isDiskFull(err error) bool {
	return errors.Is(err, errDiskFull) || errors.Is(err, errHandleDiskFull)
}

func isRefused(error) bool { return false } // there are no sockets in the file system

func isReadOnly(error) bool { return false }

const errSharingViolation = syscall.Errno(32)

// isBusy: a file cannot be executed while somebody writes to it.
func isBusy(err error) bool { return errors.Is(err, errSharingViolation) }
