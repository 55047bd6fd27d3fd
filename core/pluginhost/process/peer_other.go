// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package process

import "net"

// checkPeer accepts everybody: other systems do not tell who listens.
func checkPeer(net.Conn, int) error { return nil }
