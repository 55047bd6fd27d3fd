// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/drover-project/drover/plugins/csi/csiplugin"
)

// slowly accepts connections and hands each to the server only after a while, as a driver on a
// busy machine does.
type slowly struct {
	net.Listener
	while time.Duration
}

func (l slowly) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		<-time.After(l.while)
	}
	return c, err
}

// TestADriverThatAnswersAConnectionLateIsThere: the call waits for the connection, and is not
// told that there is no driver.
func TestADriverThatAnswersAConnectionLateIsThere(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	d := &answering{}
	csi.RegisterIdentityServer(s, d)
	csi.RegisterControllerServer(s, d)
	go func() { _ = s.Serve(slowly{l, 400 * time.Millisecond}) }() // returns after Stop
	t.Cleanup(s.Stop)

	p := csiplugin.New(t.TempDir())
	if err := p.SetConfig(t.Context(), config(t, map[string]any{"endpoint": socket})); err != nil {
		t.Fatal(err)
	}
	prints, err := p.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := <-prints; f.Problem != "" || f.Provider != "answering.example.org" {
		t.Errorf("a driver that answers a connection after 400 ms: %+v", f)
	}
}
