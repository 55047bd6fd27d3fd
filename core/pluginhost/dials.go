// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"sync"

	"google.golang.org/grpc"
)

// dials are the connections that go-plugin has made to one process. It forgets a
// connection if the process ends while go-plugin opens its first stream; such a
// connection would try to connect again for as long as the agent runs.
type dials struct {
	mu     sync.Mutex
	made   map[*grpc.ClientConn]bool
	closed bool
}

// option has a connection noted before its first stream is opened.
func (d *dials) option() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		d.note(conn)
		return next(ctx, desc, conn, method, opts...)
	})
}

func (d *dials) note(conn *grpc.ClientConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = conn.Close() // a second close is its only error
		return
	}
	if d.made == nil {
		d.made = map[*grpc.ClientConn]bool{}
	}
	d.made[conn] = true
}

// close closes the connections, and those that are noted later.
func (d *dials) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for conn := range d.made {
		_ = conn.Close() // a second close is its only error
	}
	d.made = nil
}
