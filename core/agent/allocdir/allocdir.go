// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package allocdir is the directory of an alloc on its node: it owns the layout
// (the shared alloc/ folder and one folder per task), its permissions, and safe
// reading of it for the API, which never leaves the directory and never shows
// secrets, and the memory file systems of secrets. It does not fetch or render
// anything. Only core/agent and packages below it may import it.
//
//	ALLOC/alloc/{data,logs,tmp}       shared by the tasks (NOMAD_ALLOC_DIR)
//	ALLOC/TASK/{local,secrets,tmp}    a task's own (NOMAD_TASK_DIR is local)
//	ALLOC/TASK/private                the node's own files of a task, made when needed
//
// Everybody may pass ALLOC, whose names nobody may list, and write to what the tasks
// share. TASK and secrets are closed to all but the agent until Admit says to whom
// else they are open.
package allocdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Names of the folders.
const (
	SharedDir  = "alloc"
	LogsDir    = "logs"
	DataDir    = "data"
	TmpDir     = "tmp"
	LocalDir   = "local"
	SecretsDir = "secrets"
	PrivateDir = "private" // the node's own files of a task
)

// Dir is the directory of one alloc.
type Dir struct {
	// Path is absolute.
	Path string
}

// New names the directory of an alloc below the node's alloc directory.
func New(root, allocID string) Dir { return Dir{Path: filepath.Join(root, allocID)} }

// Shared is the folder that all tasks of the alloc share.
func (d Dir) Shared() string { return filepath.Join(d.Path, SharedDir) }

// Task is a task's own folder.
func (d Dir) Task(task string) string { return filepath.Join(d.Path, task) }

// Local is what NOMAD_TASK_DIR names.
func (d Dir) Local(task string) string { return filepath.Join(d.Path, task, LocalDir) }

// Secrets returns the path of the task's secrets folder (NOMAD_SECRETS_DIR).
func (d Dir) Secrets(task string) string { return filepath.Join(d.Path, task, SecretsDir) }

// LogPrefix is the name of a task's log files without their number; kind is
// "stdout" or "stderr".
func (d Dir) LogPrefix(task, kind string) string {
	return filepath.Join(d.Path, SharedDir, LogsDir, task+"."+kind)
}

// Build makes the alloc's shared folders. It may be repeated.
func (d Dir) Build() error {
	if err := os.MkdirAll(d.Path, 0o711); err != nil {
		return fmt.Errorf("make the alloc directory: %w", err)
	}
	return d.folders(SharedDir, SharedDir+"/"+DataDir, SharedDir+"/"+LogsDir, SharedDir+"/"+TmpDir)
}

// BuildTask makes the folders of a task. It may be repeated.
func (d Dir) BuildTask(task string) error {
	if err := checkTaskName(task); err != nil {
		return err
	}
	return d.folders(task, task+"/"+LocalDir, task+"/"+SecretsDir, task+"/"+TmpDir)
}

// TakeOver moves the data of an alloc that has ended here: alloc/data and the local folder
// of each task. It skips what was moved before, does not exist or is not a folder.
func (d Dir) TakeOver(from Dir, tasks []string) error {
	moves := []string{SharedDir + "/" + DataDir}
	for _, t := range tasks {
		if err := d.BuildTask(t); err != nil {
			return err
		}
		moves = append(moves, t+"/"+LocalDir)
	}
	root, err := os.OpenRoot(filepath.Dir(d.Path))
	if err != nil {
		return fmt.Errorf("open the directory of the allocs: %w", err)
	}
	defer root.Close()
	for _, m := range moves {
		old, now := filepath.Join(filepath.Base(from.Path), m), filepath.Join(filepath.Base(d.Path), m)
		if info, err := root.Lstat(old); err != nil || !info.IsDir() {
			continue
		}
		if err := root.Remove(now); err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue // it has something in it: that was moved before
		}
		if err := root.Rename(old, now); err != nil {
			return fmt.Errorf("move %q of the alloc before: %w", m, err)
		}
	}
	return nil
}

// Remove deletes the directory with everything in it. What is mounted in it is
// detached first and never deleted.
func (d Dir) Remove() error {
	if err := mounts.Detach(d.Path); err != nil {
		return err
	}
	if err := os.RemoveAll(d.Path); err != nil {
		return fmt.Errorf("remove the alloc directory: %w", err)
	}
	return nil
}

func checkTaskName(task string) error {
	if task == "" || task == "." || task == ".." || task == SharedDir || strings.ContainsAny(task, "/\\\x00") {
		return errdefs.InvalidArgumentf("task name %q cannot name a folder; choose another name", task)
	}
	return nil
}

// folders makes folders beneath the alloc's directory. Nothing that a task has put
// there is followed outside.
func (d Dir) folders(names ...string) error {
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return fmt.Errorf("open the alloc directory: %w", err)
	}
	defer root.Close()
	for _, name := range names {
		err := root.Mkdir(name, modeOf(name).Perm())
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = root.Chmod(name, modeOf(name)) // the umask has removed some permissions
		}
		if err != nil {
			return fmt.Errorf("make the folder %q of the alloc: %w", name, err)
		}
	}
	return nil
}

// modeOf returns the mode of a folder. Tasks may run as any user, so their folders are open
// to all; the task's folder above them is not. In a task's tmp folder users cannot remove
// each other's files.
func modeOf(name string) fs.FileMode {
	task, folder, _ := strings.Cut(name, "/")
	switch {
	case task == SharedDir:
		return 0o777
	case folder == "" || folder == SecretsDir:
		return closed
	case folder == TmpDir:
		return 0o777 | os.ModeSticky
	}
	return 0o777
}
