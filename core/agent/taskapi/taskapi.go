// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package taskapi accepts connections on the sockets by which tasks reach their agent: one
// in the secrets folder of each task. It is one net.Listener for all of them, and no socket
// has a goroutine of its own. It does not know the protocol on a connection. Only
// core/agent imports it.
package taskapi

import (
	"net"

	"github.com/drover-project/drover/core/agent/allocdir"
)

// SocketName is the name of a task's socket in its secrets folder.
const SocketName = "api.sock"

// address is the remote address of a connection: it names the task that has connected.
type address string

// Network implements net.Addr.
func (address) Network() string { return "unix" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

// conn is a connection that knows the socket, and thereby the task, that accepted it.
type conn struct {
	net.Conn
	task address
}

// RemoteAddr names the task.
func (c *conn) RemoteAddr() net.Addr { return c.task }

func keyOf(dir allocdir.Dir, task string) string { return dir.Task(task) }
