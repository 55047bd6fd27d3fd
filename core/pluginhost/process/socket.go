// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// socketNameLength is the length of the part of a socket's path after the directory: the
// folder of a process, and the name that go-plugin gives to its socket. maxSocketPath is
// the smallest limit of the supported systems.
const (
	socketNameLength = len("/zz") + len("/plugin") + 10
	maxSocketPath    = 103
)

// Tag returns a tag that distinguishes the host with that state directory (an absolute
// path) from others on the machine.
func Tag(stateDir string) string {
	sum := sha256.Sum256([]byte(stateDir))
	return hex.EncodeToString(sum[:6])
}

// socketDirFor creates the directory for sockets, in which each process has a private
// folder: below stateDir, or, if socket
// paths would be too long, below the system's temporary directory with a name derived
// from stateDir, which is absolute. mode lets the users of plugins pass through it, or
// not.
func socketDirFor(stateDir string, mode fs.FileMode) (string, error) {
	dir := filepath.Join(stateDir, "sock")
	if len(dir)+socketNameLength > maxSocketPath {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("drover-%d-%s", os.Getuid(), Tag(stateDir)))
	}
	if err := os.MkdirAll(dir, mode); err != nil {
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
	if err := os.Chmod(dir, mode); err != nil {
		return "", errdefs.FailedPreconditionf("make the directory for plugin sockets private: %w", err)
	}
	return dir, nil
}

// socketPrefix is the prefix that go-plugin gives to sockets.
const socketPrefix = "plugin"

// maxFolders limits the private folders of processes, so that their names are short.
const maxFolders = 36 * 36

// socketFolder makes the private folder of a process's socket.
func (l *Launcher) socketFolder() (string, error) {
	for n := range maxFolders {
		dir := filepath.Join(l.socketDir, strconv.FormatInt(int64(n), 36))
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", errdefs.FailedPreconditionf("make the folder of a plugin's socket: %w", err)
		}
	}
	return "", errdefs.ResourceExhaustedf("%s has %d folders of plugins' sockets; remove those that no plugin uses", l.socketDir, maxFolders)
}

// dialLimit limits the time for trying all sockets.
const dialLimit = 2 * time.Second

// sweepSockets removes the sockets without listeners, which a killed agent left, and
// their folders.
func (l *Launcher) sweepSockets(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	for _, pattern := range []string{socketPrefix + "*", filepath.Join("*", socketPrefix+"*")} {
		paths, err := filepath.Glob(filepath.Join(l.socketDir, pattern))
		if err != nil {
			return // the pattern is wrong, which a test would show
		}
		for _, path := range paths {
			sweepSocket(ctx, path)
		}
	}
	entries, _ := os.ReadDir(l.socketDir) // as above
	for _, e := range entries {
		if e.IsDir() {
			_ = os.Remove(filepath.Join(l.socketDir, e.Name())) // it stays if somebody listens in it
		}
	}
}

func sweepSocket(ctx context.Context, path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSocket == 0 {
		return
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // somebody listens
	case isRefused(err):
		_ = os.Remove(path) // tried again at the next start
	}
}

// removeSocket removes the socket of an ended process, which a killed process leaves
// behind, and its folder.
func (p *Process) removeSocket() {
	if p.socket != "" {
		_ = os.Remove(p.socket) // a process that ended by itself has removed it
	}
	if p.socketDir != "" {
		_ = os.RemoveAll(p.socketDir) // the next start of the agent removes the rest
	}
}
