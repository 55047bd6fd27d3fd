// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// guarded knows one node, and panics when it is asked for plugins.
type guarded struct {
	fake
	registered atomic.Int32
	hold       chan struct{} // if set, registrations wait for it
}

func (g *guarded) Identify(id rpc.Identity) error {
	if id.NodeID != "n" || id.SecretID != "s" {
		return errdefs.NotFoundf("node %.20q is not registered", id.NodeID)
	}
	return nil
}

func (g *guarded) Register(ctx context.Context, _ *model.Node) (rpc.Lease, error) {
	g.registered.Add(1)
	if g.hold != nil {
		<-g.hold
	}
	return rpc.Lease{TTL: time.Minute}, nil
}

func (g *guarded) Change(context.Context, *model.NodeChange) (rpc.Lease, error) {
	return rpc.Lease{TTL: time.Minute}, nil
}

func (g *guarded) Away(context.Context, rpc.Identity) error { return nil }

func (g *guarded) Beat(context.Context, rpc.Identity) (rpc.Lease, error) { return rpc.Lease{}, nil }

func (g *guarded) Plugins(context.Context, rpc.Identity) (rpc.PluginAnswer, error) {
	panic("no node of ours asks so")
}

func (g *guarded) PluginFile(context.Context, rpc.Identity, string, func([]byte) error) error {
	panic("no node of ours asks so")
}

// serve puts servers behind a listener and returns its address.
func serve(t *testing.T, servers rpc.Servers) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, served := rpc.NewServer(servers, nil, hclog.NewNullLogger()), make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, servers rpc.Servers) *rpc.Client {
	t.Helper()
	c, err := rpc.Dial(serve(t, servers), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var known = rpc.Identity{NodeID: "n", SecretID: "s"}

// rawBytes are sent as they are.
type rawBytes struct{}

func (rawBytes) Name() string                       { return "raw" }
func (rawBytes) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawBytes) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }

// wire is a connection on which anything can be sent.
func wire(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(rawBytes{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(conn *grpc.ClientConn, ctx context.Context, method string, data []byte) error {
	var reply []byte
	return conn.Invoke(ctx, "/drover.rpc.v1.Servers/"+method, &data, &reply)
}

var unary = []string{"Register", "Change", "Beat", "Away", "UpdateAllocs", "FetchAllocs", "Variables", "PutDriverSchemas", "Plugins"}

func asKnown(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "drover-node", "n", "drover-secret-bin", "s")
}

func TestNothingOfACallIsReadBeforeItIsKnownWhoCalls(t *testing.T) {
	g := &guarded{}
	conn := wire(t, serve(t, g))
	huge := bytes.Repeat([]byte{0x80}, 15<<20) // 15 million empty maps
	for _, method := range append(unary, "Attach", "Answer", "PluginFile", "AllocData") {
		want := codes.NotFound
		if method == "Register" { // whoever is new may register, in few words
			want = codes.ResourceExhausted
		}
		if got := status.Code(send(conn, t.Context(), method, huge)); got != want {
			t.Errorf("%s by a stranger: %s, want %s", method, got, want)
		}
	}
	if g.registered.Load() != 0 {
		t.Error("a registration came through")
	}
}

func TestAMessageThatWouldBecomeTooMuchIsRefusedBeforeItIsDecoded(t *testing.T) {
	conn := wire(t, serve(t, &guarded{}))
	list := append([]byte{0x81, 0xa7}, "Reports"...)
	list = append(list, 0xdd, 0, 0x0f, 0x42, 0x40) // a million reports
	list = append(list, bytes.Repeat([]byte{0x80}, 1_000_000)...)
	err := send(conn, asKnown(t.Context()), "UpdateAllocs", list)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "400000 objects") {
		t.Errorf("got %v", err)
	}
	if got := status.Code(send(conn, asKnown(t.Context()), "UpdateAllocs", make([]byte, 17<<20))); got != codes.ResourceExhausted {
		t.Errorf("17 MiB gave %s", got)
	}
	for name, broken := range map[string][]byte{"a list without its values": {0xdd, 0xff, 0xff, 0xff, 0xff}, "half a text": {0xdb, 0, 0, 0, 9, 'x'}, "no value": {0xc1}} {
		if got := status.Code(send(conn, asKnown(t.Context()), "Beat", broken)); got != codes.InvalidArgument {
			t.Errorf("%s gave %s", name, got)
		}
	}
}

func TestOnlySoManyStrangersRegisterAtOnce(t *testing.T) {
	g := &guarded{hold: make(chan struct{})}
	c := dial(t, g)
	const all = 50
	errs := make(chan error, all)
	for range all {
		go func() {
			_, err := c.Register(t.Context(), &model.Node{ID: "new", SecretID: "x"})
			errs <- err
		}()
	}
	for range all - 32 {
		if err := <-errs; !errdefs.IsResourceExhausted(err) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := c.Beat(t.Context(), known); err != nil {
		t.Errorf("a known node: %v", err)
	}
	close(g.hold)
	for range 32 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	g.hold = nil
	if _, err := c.Register(t.Context(), &model.Node{ID: "new", SecretID: "x"}); err != nil {
		t.Errorf("after them: %v", err)
	}
}

func TestACallThatPanicsFailsAlone(t *testing.T) {
	c := dial(t, &guarded{})
	if _, err := c.Plugins(t.Context(), known); !errdefs.IsInternal(err) || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("got %v", err)
	}
	if err := c.PluginFile(t.Context(), known, "d", nil); !errdefs.IsInternal(err) || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("a stream: %v", err)
	}
	if _, err := c.Beat(t.Context(), known); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// FuzzWire sends bytes to every call: the server answers, whatever they are.
func FuzzWire(f *testing.F) {
	f.Add([]byte{0x80})
	f.Add(append([]byte{0x81, 0xa7}, "Reports\x93\xc0\xc0\x80"...))
	f.Add(append([]byte{0x82, 0xa2}, "ID\x81\xa6NodeID\xa1n\xa5Query\x81\xa4Wait\xcf\xff\xff\xff\xff\xff\xff\xff\xff"...))
	f.Add(append([]byte{0x81, 0xad}, "NodeResources\x81\xa7Devices\x91\xc0"...))
	f.Add(append([]byte{0x82, 0xa4}, "Node\x81\xa2ID\xa1n\xa6Fields\x92\xa6Status\xc0"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		g := &guarded{}
		conn := wire(t, serve(t, g))
		for _, method := range unary {
			err := send(conn, asKnown(t.Context()), method, data)
			if code := status.Code(err); code == codes.Unavailable || code == codes.Unknown {
				t.Errorf("%s: %v", method, err)
			}
		}
	})
}
