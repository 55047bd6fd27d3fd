// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// folders are the state folders of plugins: each is its plugin's working directory, which
// only its user may enter. The owner of the folder records the user id of the plugin.
type folders struct {
	root string
	key  string // distinguishes the plugins of this agent from the plugins of others

	mu    sync.Mutex
	users map[string]int // ids given to plugins that had no folder yet
}

// newFolders takes the root from the environment variable of plugins (plugin.StateDirEnv),
// or else makes one below the host's directory.
func newFolders(env []string, stateDir string) *folders {
	f := &folders{root: filepath.Join(stateDir, "state"), key: stateDir + "/", users: map[string]int{}}
	for _, v := range env {
		if dir, ok := strings.CutPrefix(v, plugin.StateDirEnv+"="); ok {
			f.root = dir
		}
	}
	return f
}

// variable is the environment variable by which a plugin learns the root, as NAME=VALUE.
func (f *folders) variable() string { return plugin.StateDirEnv + "=" + f.root }

func (f *folders) of(name string) string { return filepath.Join(f.root, filepath.Base(name)) }

// user returns the id that only this plugin has.
func (f *folders) user(name string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id, ok := f.users[name]; ok {
		return id, nil
	}
	taken := map[int]bool{}
	for _, id := range f.users {
		taken[id] = true
	}
	entries, err := os.ReadDir(f.root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("look at the state folders of plugins: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // it was removed
		}
		id := ownerOf(info)
		if e.Name() == filepath.Base(name) && e.IsDir() && confine.IsOwnUserID(id) {
			f.users[name] = id
			return id, nil
		}
		taken[id] = true
	}
	id, err := confine.OwnUserID(f.key+name, func(id int) bool { return taken[id] })
	if err == nil {
		f.users[name] = id
	}
	return id, err
}

// makeRoot makes the directory of the folders, through which every plugin may pass.
func (f *folders) makeRoot() error {
	if err := os.MkdirAll(f.root, 0o711); err != nil {
		return errdefs.FailedPreconditionf("make the directory for the state of plugins: %w", err)
	}
	if info, err := os.Stat(f.root); err == nil && ownedByUs(info) {
		if err := os.Chmod(f.root, 0o711); err != nil {
			return errdefs.FailedPreconditionf("let plugins pass through the directory for their state: %w", err)
		}
	}
	return nil
}

// prepare makes the folder of a plugin, which belongs to the user from now on.
func (f *folders) prepare(name string, id confine.Identity) (string, error) {
	if err := f.makeRoot(); err != nil {
		return "", err
	}
	dir := f.of(name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", errdefs.FailedPreconditionf("make the state folder of plugin %s: %w", name, err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", errdefs.FailedPreconditionf("look at the state folder of plugin %s: %w", name, err)
	}
	if !info.IsDir() {
		return "", errdefs.FailedPreconditionf("the state folder of plugin %s, %s, is not a directory; remove it", name, dir)
	}
	if err := give(dir, info, id); err != nil {
		return "", errdefs.FailedPreconditionf("give the state folder of plugin %s to its user %d: %w", name, id.UID, err)
	}
	return dir, nil
}

// maxFolderEntries limits the number of files of a state folder that size counts.
const maxFolderEntries = 200_000

// size returns the bytes in a plugin's folder, as allocated on disk, and whether there are
// more files than maxFolderEntries.
func (f *folders) size(name string) (bytes int64, more bool) {
	seen := 0
	err := filepath.WalkDir(f.of(name), func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it was removed, or cannot be read
		}
		if seen++; seen > maxFolderEntries {
			return errTooMany
		}
		if info, err := e.Info(); err == nil {
			bytes += sizeOnDisk(info)
		}
		return nil
	})
	return bytes, errors.Is(err, errTooMany)
}

var errTooMany = errors.New("too many files")

// checkSize refuses a plugin whose folder is full. The error names the cure.
func (f *folders) checkSize(name string, limitMB int) error {
	if limitMB == 0 {
		return nil
	}
	bytes, more := f.size(name)
	switch {
	case more:
		return errdefs.ResourceExhaustedf("plugin %s: its state folder %s has more than %d files; remove what it does not need", name, f.of(name), maxFolderEntries)
	case bytes > int64(limitMB)<<20:
		return errdefs.ResourceExhaustedf("plugin %s: its state folder %s holds %d MiB of at most %d; remove what it does not need, or raise state_mb in its plugin block",
			name, f.of(name), bytes>>20, limitMB)
	}
	return nil
}

// unreachable returns the first directory above a path, or the path itself, that other
// users may not pass; "" if there is none.
func unreachable(path string, need fs.FileMode) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if info, err := os.Stat(real); err != nil || info.Mode().Perm()&need != need {
		return real
	}
	return ""
}
