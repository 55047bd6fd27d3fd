// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package allocdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Admit opens a task's folder and its secrets to the users in access, and closes them to
// all others. It may be repeated. An agent that is not root cannot give folders away: its
// tasks run as its own user.
func (d Dir) Admit(task string, access Access) error {
	if err := checkTaskName(task); err != nil {
		return err
	}
	// The secrets first: once the folder is the task's, it may exchange them.
	if err := d.admit(access, access.secrets, task, SecretsDir); err != nil {
		return err
	}
	return d.admit(access, access.folder, task)
}

// AdmitShared does the same with the folder that the tasks of the alloc share.
func (d Dir) AdmitShared(access Access) error { return d.admit(access, access.folder, SharedDir) }

func (d Dir) admit(access Access, mode fs.FileMode, names ...string) error {
	f, err := d.openFolder(names...)
	if err == nil {
		err = errors.Join(access.apply(f, mode), f.Close())
	}
	if err != nil {
		return fmt.Errorf("set who may enter the folder %q of the alloc: %w", strings.Join(names, "/"), err)
	}
	return nil
}

// apply sets owner and mode of a folder, which is closed while its owner changes.
func (a Access) apply(f *os.File, mode fs.FileMode) error {
	if os.Geteuid() == 0 {
		if err := f.Chmod(closed); err != nil {
			return err
		}
		if err := f.Chown(a.uid, a.gid); err != nil {
			return err
		}
	}
	return f.Chmod(mode)
}

// openFolder opens a folder of the alloc, and refuses a path with a link, even if it leads
// to another task's folder.
func (d Dir) openFolder(names ...string) (*os.File, error) {
	at, err := unix.Open(d.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for _, name := range names {
		if err != nil {
			break
		}
		above := at
		at, err = unix.Openat(above, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(above) // only a place in the tree
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(at), filepath.Join(names...)), nil
}
