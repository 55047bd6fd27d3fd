// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// errFolder says that a file cannot be put in the place of a folder.
var errFolder = errors.New("there is a folder of that name; add the name of a file to the path")

// Replace puts a file below root in its place at once: readers see the old or the new one.
// A uid or gid of -1 leaves the agent as the owner.
func Replace(root *os.Root, name string, data []byte, mode fs.FileMode, uid, gid int) error {
	dir := filepath.Dir(name)
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp := filepath.Join(dir, ".drover-"+rand.Text())
	err := fill(root, temp, data, mode, uid, gid)
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		if info, is := root.Lstat(name); is == nil && info.IsDir() {
			err = errFolder
		}
		if gone := root.Remove(temp); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// fill makes a new file. Owner and mode are set through the open file, so nobody can put
// another one in its place between.
func fill(root *os.Root, name string, data []byte, mode fs.FileMode, uid, gid int) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil && (uid >= 0 || gid >= 0) {
		err = file.Chown(uid, gid)
	}
	if err == nil {
		err = file.Chmod(mode)
	}
	return errors.Join(err, file.Close())
}

// WriteSecret writes a file below a task's folder, which it cannot leave, for those who may
// enter the task's secrets: it has the owner of that folder. Before Admit has opened the
// folder, nobody but the agent reads the file.
func (d Dir) WriteSecret(task, name string, data []byte) error {
	if err := checkTaskName(task); err != nil {
		return err
	}
	root, err := os.OpenRoot(d.Task(task))
	if err != nil {
		return fmt.Errorf("open the folder of task %q: %w", task, err)
	}
	defer root.Close()
	info, err := root.Lstat(SecretsDir)
	if err != nil {
		return fmt.Errorf("look at the secrets folder of task %q: %w", task, err)
	}
	mode, uid, gid := fs.FileMode(0o600), -1, -1
	if info.Mode().Perm()&0o007 != 0 {
		mode = 0o644 // any user: the folder above decides who gets here
	} else if os.Geteuid() == 0 {
		uid, gid, _, _ = ownerAndNode(info)
	}
	if err := Replace(root, filepath.FromSlash(name), data, mode, uid, gid); err != nil {
		return fmt.Errorf("write the file %q of task %q: %w", name, task, err)
	}
	return nil
}
