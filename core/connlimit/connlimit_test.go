// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package connlimit_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/drover-project/drover/core/connlimit"
)

func TestAnAddressHoldsABoundedNumberOfConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := connlimit.New(inner, 2, []byte("no"))
	defer l.Close()
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	dial()
	first := <-accepted
	dial()
	<-accepted
	for range 3 {
		if body, err := io.ReadAll(dial()); err != nil || string(body) != "no" {
			t.Errorf("one too many is told %q, %v", body, err)
		}
	}
	first.Close()
	dial()
	<-accepted // there is room again
}
