// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package process

import "net"

// checkPeer accepts everybody: this system does not report who listens on a socket.
func checkPeer(net.Conn, int) error { return nil }
