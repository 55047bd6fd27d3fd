// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/sdk/errdefs"
)

// checkPeer refuses a socket on which another process than the plugin listens: a
// handshake may name any socket of the machine. session is the plugin's pid.
func checkPeer(conn net.Conn, session int) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil // a port tells nobody's pid
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("find out which process listens on the socket: %w", err)
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		failed = err
	}
	if failed != nil {
		return fmt.Errorf("find out which process listens on the socket: %w", failed)
	}
	pid := int(peer.Pid)
	if pid == session {
		return nil
	}
	if sid, err := unix.Getsid(pid); err == nil && sid == session || slices.Contains(confine.Descendants(session), pid) {
		return nil
	}
	return errdefs.PermissionDeniedf("process %d, of user %d, listens on the socket %s, and is none of the plugin's; the plugin must name a socket of its own in its handshake",
		pid, peer.Uid, conn.RemoteAddr())
}
