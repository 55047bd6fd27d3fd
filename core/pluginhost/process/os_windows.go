// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build windows

package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/drover-project/drover/core/pluginhost/confine"
)

func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func killSession(int) {} // the caller ends the process itself

func ownerOf(fs.FileInfo) int { return -1 }

func sizeOnDisk(info fs.FileInfo) int64 { return info.Size() }

func give(string, fs.FileInfo, confine.Identity) error { return nil }

func ownedByUs(fs.FileInfo) bool { return true }

func diedItself(*os.ProcessState) bool { return false } // there are no signals

func ownership(fs.FileInfo) string { return "" }

func isRefused(error) bool { return false } // there are no sockets in the file system

const errSharingViolation = syscall.Errno(32)

// IsBusy reports whether a file cannot be executed because somebody writes to it.
func IsBusy(err error) bool { return errors.Is(err, errSharingViolation) }
