// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// web serves HTTP to nodes and returns a client whose requests travel so.
func web(t *testing.T, c *rpc.Client, s *rpc.Server, h http.HandlerFunc) *http.Client {
	t.Helper()
	srv := &http.Server{Handler: h}
	served := make(chan error, 1)
	l := s.HTTP()
	go func() { served <- srv.Serve(l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.DialHTTP(ctx) }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = srv.Close() // what it says is that it is closed
		<-served
	})
	return &http.Client{Transport: transport}
}

func TestHTTPRequestsTravelOverTheNodesConnectionAsTheyAre(t *testing.T) {
	_, c, s := connect(t)
	gone := make(chan struct{})
	client := web(t, c, s, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			w.Header().Set("From", host)
			_, _ = io.Copy(w, r.Body) // the test compares what comes
		case "/poll":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush() // the test waits for the head
			<-r.Context().Done()
			close(gone)
		case "/upgrade":
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			line, err := rw.ReadString('\n')
			if err != nil {
				t.Error(err)
			}
			fmt.Fprint(conn, strings.ToUpper(line))
		}
	})
	big := strings.Repeat("0123456789", 300_000)
	for range 3 {
		r, err := client.Post("http://servers/echo", "text/plain", strings.NewReader(big))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || string(body) != big || r.Header.Get("From") != "127.0.0.1" {
			t.Fatalf("%d bytes of %d from %q, %v", len(body), len(big), r.Header.Get("From"), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://servers/poll", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-gone // the server hears that nobody waits any more
	r.Body.Close()

	conn, err := c.DialHTTP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /upgrade HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello\n")
	answer := bufio.NewReader(conn)
	if head, err := http.ReadResponse(answer, nil); err != nil || head.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", head, err)
	}
	if line, err := answer.ReadString('\n'); err != nil || line != "HELLO\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := answer.ReadByte(); err != io.EOF {
		t.Fatalf("after the server has closed: %v", err)
	}
}

// agentOf is a node whose only answer is its HTTP API.
type agentOf struct{ http *rpc.HTTPListener }

func (a agentOf) Call(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error {
	if call.Method != rpc.MethodHTTP {
		return errdefs.Unimplementedf("no %s", call.Method)
	}
	return a.http.Answer(ctx, in, send)
}

func TestAServerReachesTheHTTPAPIOfANodeOverItsSession(t *testing.T) {
	f, c, _ := connect(t)
	node := agentOf{rpc.NewHTTPListener()}
	remote, _, _ := attach(t, f, c, node)
	ask := func(path, body string) (*http.Response, error) {
		client := http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return rpc.DialNode(remote), nil },
		}}
		return client.Post("http://node"+path, "text/plain", strings.NewReader(body))
	}
	if _, err := ask("/echo", "x"); err == nil || !strings.Contains(err.Error(), "does not serve its HTTP API yet") {
		t.Errorf("before it serves: %v", err)
	}
	gone := make(chan struct{})
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/echo" {
			_, _ = io.Copy(w, r.Body) // the test compares what comes
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // the test waits for the head
		<-r.Context().Done()
		close(gone)
	})}
	served := make(chan error, 1)
	l := node.http.Open()
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-served })
	big := strings.Repeat("0123456789", 100_000)
	r, err := ask("/echo", big)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || string(body) != big {
		t.Fatalf("%d bytes of %d, %v", len(body), len(big), err)
	}
	if r, err = ask("/stream", ""); err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	<-gone // who goes ends the request on the node
}

func TestHTTPRequestsFailAtOnceWhereNobodyAnswers(t *testing.T) {
	f, c, s := connect(t)
	read := func() error {
		conn, err := c.DialHTTP(t.Context())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
		return err
	}
	if read() == nil {
		t.Error("a server that serves nodes no HTTP accepts a connection")
	}
	if _, err := c.Register(t.Context(), &model.Node{ID: "n"}); err != nil || f.node == nil {
		t.Fatalf("the connection is of no use any more: %v", err)
	}
	s.Close()
	if read() == nil {
		t.Error("a connection to a server that has ended")
	}
}

func TestANodeGoesOnWithTheNextServer(t *testing.T) {
	addresses := make([]string, 3)
	servers := make([]*rpc.Server, 3)
	fakes := make([]*fake, 3)
	for i := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses[i], fakes[i] = l.Addr().String(), &fake{}
		servers[i] = rpc.NewServer(fakes[i], nil, hclog.NewNullLogger())
		go func() { _ = servers[i].Serve(l) }() // Close ends it
		defer servers[i].Close()
	}
	servers[0].Close() // the first was never there
	c, err := rpc.DialAny(addresses, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Register(t.Context(), &model.Node{ID: "n"}); err != nil || fakes[1].node == nil {
		t.Fatalf("the second did not answer: %v", err)
	}
	servers[1].Close()
	for fakes[2].node == nil { // the call that finds the connection lost may fail
		if _, err := c.Register(t.Context(), &model.Node{ID: "n"}); err != nil && !errdefs.IsUnavailable(err) {
			t.Fatal(err)
		}
	}
	if known := c.Known(); len(known) != 4 || known[3] != "a:1" {
		t.Errorf("known servers: %v", known)
	}
	for _, wrong := range []string{"", "host", "::1"} {
		if _, err := rpc.DialAny([]string{addresses[0], wrong}, nil); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
