// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/rpc"
)

func TestHostileAConnectionThatSaysNothingIsClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServerWithin(&fake{}, nil, hclog.NewNullLogger(), 50*time.Millisecond)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for _, say := range []string{"", "PRI * HTTP", "GET / HTTP/1.1\r\n\r\n"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, say); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil { // its end, not the deadline
			if e, timeout := err.(net.Error); timeout && e.Timeout() {
				t.Errorf("%q: the connection is held open", say)
			}
		}
	}
}
