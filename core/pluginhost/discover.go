// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// file is one plugin executable.
type file struct {
	name string // without a suffix
	path string // its path in plugin_dir, which may not exist yet
	// stored is the copy that is executed instead of path: of a version on trial, or
	// of one whose file was removed from plugin_dir.
	stored string
}

// binary is what is executed.
func (f file) binary() string {
	if f.stored != "" {
		return f.stored
	}
	return f.path
}

// discover lists the executables in dir. They may be links to one binary that contains
// many plugins and selects one by the name under which it is called.
func discover(dir string, disabled []string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errdefs.FailedPreconditionf("read plugin_dir: %w", err)
	}
	var out []file
	for _, c := range candidates(entries, dir, disabled) {
		info, err := os.Stat(c.path)
		if err != nil || !info.Mode().IsRegular() || !executable(info, c.path) {
			continue // a README, a directory or a broken link is not a plugin
		}
		if c.path, err = filepath.Abs(c.path); err != nil {
			return nil, fmt.Errorf("plugin %q: %w", c.name, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// candidates returns the entries of plugin_dir whose names are valid for a plugin.
func candidates(entries []fs.DirEntry, dir string, disabled []string) []file {
	var out []file
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".exe")
		if strings.HasPrefix(name, ".") || slices.Contains(disabled, name) {
			continue
		}
		out = append(out, file{name: name, path: filepath.Join(dir, e.Name())})
	}
	return out
}

// find returns the executable of one name.
func find(dir, name string) (f file, isThere bool, err error) {
	files, err := discover(dir, nil)
	for _, f := range files {
		if f.name == name {
			return f, true, nil
		}
	}
	return file{}, false, err
}

func executable(info fs.FileInfo, name string) bool {
	if runtime.GOOS == "windows" {
		return strings.HasSuffix(name, ".exe")
	}
	return info.Mode().Perm()&0o111 != 0
}

// checkFile rejects a file that another user could have put there, because plugins run
// with the rights of the agent.
func checkFile(f file) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	for _, path := range []string{f.binary(), filepath.Dir(f.binary())} {
		info, err := os.Stat(path)
		if err != nil {
			return errdefs.FailedPreconditionf("plugin %s: %w", f.path, err)
		}
		if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return errdefs.PermissionDeniedf("plugin %s: every user may write to %s; take that right away with chmod o-w", f.path, path)
		}
	}
	return nil
}

// identity changes when the file behind path is replaced.
func identity(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano())
}

// socketNameLength is the length of the name that go-plugin appends to the directory,
// and maxSocketPath the smallest limit of the supported systems.
const (
	socketNameLength = len("/plugin") + 10
	maxSocketPath    = 103
)

// tagOf returns a tag that distinguishes the host with that state directory (an
// absolute path) from others.
func tagOf(stateDir string) string {
	sum := sha256.Sum256([]byte(stateDir))
	return hex.EncodeToString(sum[:6])
}

// privateSocketDir creates the directory for sockets: below stateDir, or, if socket
// paths would be too long, below the system's temporary directory with a name derived
// from stateDir, which is absolute.
func privateSocketDir(stateDir string) (string, error) {
	dir := filepath.Join(stateDir, "sock")
	if len(dir)+socketNameLength > maxSocketPath {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("drover-%d-%s", os.Getuid(), tagOf(stateDir)))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", errdefs.FailedPreconditionf("make the directory for plugin sockets: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", errdefs.FailedPreconditionf("look at the directory for plugin sockets: %w", err)
	}
	if !info.IsDir() || !ownedByUs(info) {
		return "", errdefs.PermissionDeniedf("%s must be a directory of the agent's own user; remove it", dir)
	}
	if runtime.GOOS == "windows" {
		return dir, nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", errdefs.FailedPreconditionf("make the directory for plugin sockets private: %w", err)
	}
	return dir, nil
}
