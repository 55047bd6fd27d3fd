// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package plugin

import "net"

// Direct returns the connection: only Linux has a better one.
func Direct(conn net.Conn) net.Conn { return conn }
