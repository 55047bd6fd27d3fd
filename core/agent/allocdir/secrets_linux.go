// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/sdk/errdefs"
)

// DefaultSecretsMB is the size of a secrets folder in memory.
const DefaultSecretsMB = 1

// inodesPerMB bounds the kernel's memory for files without content.
const inodesPerMB = 1024

// MountSecrets puts a task's secrets folder into memory, so that secrets never
// reach a disk: at most sizeMB (0: DefaultSecretsMB), nothing executable, no
// devices, no set-user-id, and closed until Admit opens it. It finds a folder that an earlier agent has mounted;
// fresh is false then. BuildTask comes first.
func (d Dir) MountSecrets(task string, sizeMB int) (fresh bool, err error) {
	if err := checkTaskName(task); err != nil {
		return false, err
	}
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return false, fmt.Errorf("open the alloc directory: %w", err)
	}
	defer root.Close()
	f, err := d.openFolder(task, SecretsDir)
	if err != nil {
		return false, fmt.Errorf("open the secrets folder of task %q: %w", task, err)
	}
	defer f.Close()
	mounted, err := onOtherDevice(root, f)
	if err != nil || mounted {
		return false, err
	}
	if err := mountMemory(f, sizeMB); err != nil {
		return false, err
	}
	return true, nil
}

// onOtherDevice reports whether a folder is on another file system than the root.
func onOtherDevice(root *os.Root, f *os.File) (bool, error) {
	above, err := root.Stat(".")
	if err != nil {
		return false, fmt.Errorf("stat the alloc directory: %w", err)
	}
	own, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("stat the secrets folder: %w", err)
	}
	return above.Sys().(*syscall.Stat_t).Dev != own.Sys().(*syscall.Stat_t).Dev, nil
}

// mountMemory mounts through the open folder, so that it does not follow a link that a task
// puts into its place.
func mountMemory(f *os.File, sizeMB int) error {
	if sizeMB <= 0 {
		sizeMB = DefaultSecretsMB
	}
	options := fmt.Sprintf("size=%dm,nr_inodes=%d,mode=0700", sizeMB, sizeMB*inodesPerMB)
	flags := uintptr(unix.MS_NOEXEC | unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOATIME)
	if err := unix.Mount("tmpfs", "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), "tmpfs", flags, options); err != nil {
		return fmt.Errorf("mount a secrets folder in memory: %w; the agent needs CAP_SYS_ADMIN for it", err)
	}
	return nil
}

// ProbeSecrets returns an error if MountSecrets cannot work below a folder.
func ProbeSecrets(root string) error {
	dir, err := os.MkdirTemp(root, ".probe-")
	if err != nil {
		return fmt.Errorf("make a folder to try a mount on: %w", err)
	}
	defer os.Remove(dir)
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("open a folder to try a mount on: %w", err)
	}
	defer f.Close()
	if err := mountMemory(f, 1); err != nil {
		return errdefs.Unimplementedf("%w", err)
	}
	return mounts.Detach(dir)
}
