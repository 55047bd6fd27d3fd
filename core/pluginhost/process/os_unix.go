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
	"path/filepath"
	"syscall"

	"github.com/drover-project/drover/core/pluginhost/confine"
)

// detach gives the process a session of its own, so that neither the terminal's
// signals nor the end of the agent's session reach it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killSession kills a process that detach has started and its children, except those that
// have left its process group.
func killSession(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // an error means that no process is left

// ownerOf is the user id of a file's owner.
func ownerOf(info fs.FileInfo) int {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}

// sizeOnDisk is the space that a file takes.
func sizeOnDisk(info fs.FileInfo) int64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	return int64(st.Blocks) * 512
}

// give makes the user the owner of a private directory, and of the files in it that belong
// to the directory's previous owner.
func give(dir string, info fs.FileInfo, id confine.Identity) error {
	if info.Mode().Perm() != 0o700 && ownedByUs(info) {
		if err := os.Chmod(dir, 0o700); err != nil {
			return err
		}
	}
	before := ownerOf(info)
	if before == id.UID || os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err != nil || ownerOf(info) != before {
			return nil //nolint:nilerr // it was removed, or belongs to another user
		}
		return os.Lchown(path, id.UID, id.GID)
	})
}

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

// ownership returns the owner of a file and the user of this process.
func ownership(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf(", user %d, group %d (the agent is %d, %d)", st.Uid, st.Gid, os.Getuid(), os.Getgid())
}

// diedItself reports whether a signal other than SIGKILL ended the process: we send SIGKILL
// ourselves to a process with a wrong handshake.
func diedItself(state *os.ProcessState) bool {
	if state == nil {
		return false
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() != syscall.SIGKILL
}

// isRefused reports whether a connection failed because nobody listens on the socket.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// IsBusy reports whether a file cannot be executed because somebody writes to it.
func IsBusy(err error) bool { return errors.Is(err, syscall.ETXTBSY) }
