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
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestACallOfAnUnknownVersionOfTheProtocolIsRefusedWithTheCureAndLoggedOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &testkit.Journal{}
	server := rpc.NewServer(&fake{}, nil, hclog.New(&hclog.LoggerOptions{Output: log}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 20 {
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/drover.rpc.v9.Servers/Register")
		if err != nil {
			t.Fatal(err)
		}
		err = errdefs.FromGRPC(stream.RecvMsg(new(any)))
		if !errdefs.IsUnimplemented(err) || !strings.Contains(err.Error(), "upgrade the servers before the nodes") {
			t.Fatalf("a later version: %v", err)
		}
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{}, "/drover.rpc.v1.Servers/Added")
	if err != nil {
		t.Fatal(err)
	}
	if err := errdefs.FromGRPC(stream.RecvMsg(new(any))); !errdefs.IsUnimplemented(err) {
		t.Errorf("a call that a later release added: %v", err)
	}
	if lines := strings.Count(log.String(), "unknown version"); lines != 1 {
		t.Errorf("%d lines for twenty calls:\n%s", lines, log)
	}
	beat(t, l.Addr().String(), nil)
}

func TestAnUnknownVersionOfRaftsConnectionsIsRefused(t *testing.T) {
	authority := testkit.NewAuthority(t)
	secure := authority.Machine("server", "server.global.nomad", true)
	p, _, address := port(t, &secure, 0)
	echo(t, p)
	config := opened(t, &secure).Client()
	config.NextProtos = []string{"drover-raft/9"}
	c, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	if err == nil {
		if err = speak(t, c); err == nil {
			t.Error("the server speaks a version of raft's connections that it cannot know")
		}
	}
	q, log, plain := port(t, nil, 0)
	echo(t, q)
	raw, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Write([]byte{0xd8}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(raw); errdefs.IsDeadlineExceeded(err) {
		t.Error(err)
	}
	testkit.Eventually(t, "the log says what came", func() bool { return strings.Contains(log.String(), "byte 0xd8") })
	beat(t, plain, nil)
}
