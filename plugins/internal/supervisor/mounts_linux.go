// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// mounts identifies the mount namespace of this process; "" if that is unknown.
func mounts() string {
	id, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return ""
	}
	return id
}

// together moves the supervisor at the other end of conn into this process's mount
// namespace if it is in another one. A service manager that hides a part of the machine
// from the agent gives it a new namespace at each start. A supervisor that stayed in the
// old one would start tasks which do not see the networks and volumes that are mounted
// for them.
//
// It returns the connection to use, which is a new one after a move. A supervisor that
// cannot move stays where it is; UpToDate reports it.
func (c *Client) together(ctx context.Context, conn net.Conn) (net.Conn, error) {
	for range 2 { // a supervisor of an older release only becomes this binary at first
		resp, err := ask(ctx, conn, request{Op: opHello})
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if here := mounts(); here == "" || resp.Hello == nil || resp.Hello.Version != protocolVersion || resp.Hello.Mounts == here {
			return conn, nil
		}
		resp, err = ask(ctx, conn, request{Op: opUpgrade, Path: ownBinary(), Mounts: fmt.Sprintf("/proc/%d/ns/mnt", os.Getpid())})
		if err == nil {
			c.mu.Lock()
			c.stays = errors.New(resp.Error)
			c.mu.Unlock()
			return conn, nil
		}
		if !errors.Is(err, errLost) {
			return nil, errors.Join(err, conn.Close())
		}
		_ = conn.Close() // the supervisor closed it when it executed the binary
		if conn, err = dial(c.dir); err != nil {
			return nil, fmt.Errorf("%w: %w", errLost, err)
		}
	}
	return conn, nil
}

// ask sends a request over a connection that nobody reads, and returns the answer. Its
// error is errLost if the connection ends.
func ask(ctx context.Context, conn net.Conn, req request) (*response, error) {
	frame, err := encodeFrame(&req)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(frame); err == nil {
		if resp, err := readResponse(bufio.NewReader(conn)); err == nil {
			return resp, nil
		}
	}
	if ctx.Err() != nil {
		return nil, errdefs.Unavailablef("wait for the supervisor: %w", ctx.Err())
	}
	return nil, errLost
}

// ownBinary returns the path of this process's binary, or "" if another file is there now.
func ownBinary() string {
	own, err := os.Executable()
	if err != nil || Identity(own) != Identity("/proc/self/exe") {
		return ""
	}
	return own
}
