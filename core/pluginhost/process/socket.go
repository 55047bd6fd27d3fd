// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// socketNameLength is the length of the name that go-plugin appends to the directory,
// and maxSocketPath the smallest limit of the supported systems.
const (
	socketNameLength = len("/plugin") + 10
	maxSocketPath    = 103
)

// Tag returns a tag that distinguishes the host with that state directory (an absolute
// path) from others on the machine.
func Tag(stateDir string) string {
	sum := sha256.Sum256([]byte(stateDir))
	return hex.EncodeToString(sum[:6])
}

// privateSocketDir creates the directory for sockets: below stateDir, or, if socket
// paths would be too long, below the system's temporary directory with a name derived
// from stateDir, which is absolute.
func privateSocketDir(stateDir string) (string, error) {
	dir := filepath.Join(stateDir, "sock")
	if len(dir)+socketNameLength > maxSocketPath {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("drover-%d-%s", os.Getuid(), Tag(stateDir)))
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

// socketPrefix is that of the sockets of plugins.
const socketPrefix = "plugin"

// dialLimit limits the time for trying all sockets.
const dialLimit = 2 * time.Second

// sweepSockets removes the sockets without listeners, which a killed agent left.
func (l *Launcher) sweepSockets(ctx context.Context) {
	entries, err := os.ReadDir(l.socketDir)
	if err != nil {
		return // it was made a moment ago
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	for _, e := range entries {
		if e.Type()&fs.ModeSocket == 0 || !strings.HasPrefix(e.Name(), socketPrefix) {
			continue
		}
		path := filepath.Join(l.socketDir, e.Name())
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			_ = conn.Close() // somebody listens
		case isRefused(err):
			_ = os.Remove(path) // tried again at the next start
		}
	}
}

// removeSocket removes the socket of an ended process, which a killed process leaves
// behind.
func (p *Process) removeSocket() {
	if p.socket != "" {
		_ = os.Remove(p.socket) // who ends by itself has removed it
	}
}
