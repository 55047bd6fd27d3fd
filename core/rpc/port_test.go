// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// port opens a Port that serves nodes, and returns its log.
func port(t *testing.T, secure *rpc.TLS, handshake time.Duration) (*rpc.Port, *testkit.Journal, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &testkit.Journal{}
	p := rpc.NewPort(l, rpc.PortConfig{TLS: opened(t, secure), Handshake: handshake, Logger: hclog.New(&hclog.LoggerOptions{Output: log})})
	server := rpc.NewServer(&fake{}, nil, hclog.NewNullLogger())
	served := make(chan error, 1)
	go func() { served <- server.Serve(p.GRPC()) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, log, l.Addr().String()
}

// echo answers one connection of raft with what it sends.
func echo(t *testing.T, p *rpc.Port) {
	t.Helper()
	go func() {
		for {
			c, err := p.Raft().Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

func speak(t *testing.T, c net.Conn) error {
	t.Helper()
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("vote")); err != nil {
		return err
	}
	got := make([]byte, 4)
	_, err := io.ReadFull(c, got)
	if err == nil && string(got) != "vote" {
		t.Errorf("raft's bytes came back as %q", got)
	}
	return err
}

func TestOnePortServesNodesAndRaft(t *testing.T) {
	authority := testkit.NewAuthority(t)
	secure := authority.Machine("server", "server.global.nomad", true)
	for name, m := range map[string]*rpc.TLS{"without TLS": nil, "with TLS": &secure} {
		t.Run(name, func(t *testing.T) {
			p, _, address := port(t, m, 0)
			echo(t, p)
			c, err := rpc.DialRaft(opened(t, m))(address, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if err := speak(t, c); err != nil {
				t.Errorf("raft: %v", err)
			}
			var config *tls.Config
			if m != nil {
				config = opened(t, m).Client()
			}
			beat(t, address, config)
		})
	}
}

// beat makes one call of a node.
func beat(t *testing.T, address string, config *tls.Config) {
	t.Helper()
	node, err := rpc.Dial(address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := node.Beat(ctx, rpc.Identity{NodeID: "n", SecretID: "s"}); errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err) {
		t.Errorf("a node: %v", err)
	}
}

func TestANodesCertificateCannotActAsAServer(t *testing.T) {
	authority := testkit.NewAuthority(t)
	server := authority.Machine("server", "server.global.nomad", true)
	p, log, address := port(t, &server, 0)
	echo(t, p)
	try := func(m rpc.TLS) error {
		c, err := rpc.DialRaft(opened(t, &m))(address, 10*time.Second)
		if err != nil {
			return err
		}
		return speak(t, c)
	}
	if err := try(authority.Machine("other", "server.global.drover", true)); err != nil {
		t.Errorf("a server whose name ends with .drover: %v", err)
	}
	if err := try(authority.Machine("node", "client.global.nomad", true)); err == nil {
		t.Error("the certificate of a node spoke raft")
	}
	testkit.Eventually(t, "the log says why", func() bool { return strings.Contains(log.String(), "may not act as a server") })
	if err := try(authority.Machine("abroad", "server.eu.nomad", true)); err == nil {
		t.Error("a server of another region spoke raft")
	}
	if err := try(testkit.NewAuthority(t).Machine("stranger", "server.global.nomad", true)); err == nil {
		t.Error("a certificate of another authority spoke raft")
	}
}

func TestGarbageOnTheRPCPortIsRefusedAndLoggedOnce(t *testing.T) {
	p, log, address := port(t, nil, 200*time.Millisecond)
	echo(t, p)
	for _, sent := range []string{"GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x00", "\x16\x03\x01\x02\x00", ""} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || errdefs.IsDeadlineExceeded(err) {
			t.Errorf("%q: the connection stays open: %v", sent, err)
		}
		_ = c.Close()
	}
	beat(t, address, nil)
	if lines := strings.Count(log.String(), "was refused"); lines != 1 {
		t.Errorf("%d lines for four refused connections in a moment:\n%s", lines, log)
	}
}

func TestASlowHandshakeDelaysNobody(t *testing.T) {
	p, _, address := port(t, nil, time.Minute)
	echo(t, p)
	for range 50 { // they say nothing
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	beat(t, address, nil)
}

func TestAPortThatIsClosedEndsHandshakesAndWaitingConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := rpc.NewPort(l, rpc.PortConfig{Handshake: time.Hour, Logger: hclog.NewNullLogger()})
	var open []net.Conn
	for _, sent := range []string{"", "PRI", "\xd7"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for i, c := range open {
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("connection %d stays open: %v", i, err)
		}
	}
	if _, err := p.Raft().Accept(); err == nil {
		t.Error("a closed port has accepted a connection of raft")
	}
}
