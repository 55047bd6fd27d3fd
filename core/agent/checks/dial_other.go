// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package checks

import (
	"context"
	"net"

	"github.com/drover-project/drover/sdk/errdefs"
)

// dial connects to an address. Only Linux has network namespaces.
func dial(ctx context.Context, netns, network, address string) (net.Conn, error) {
	if netns != "" {
		return nil, errdefs.Unimplementedf("this system has no network namespaces")
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// touch connects to an address and closes the connection.
func touch(ctx context.Context, netns, address string) error {
	conn, err := dial(ctx, netns, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
