// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/drover-project/drover/core/rpc"
)

// streams is how many one connection may have at a time.
const streams = 1024

// rude is a client that minds no limit.
type rude struct {
	t *testing.T
	*http2.Framer
	next uint32
}

func beRude(t *testing.T, addr string) *rude {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	r := &rude{t: t, Framer: http2.NewFramer(c, c), next: 1}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	r.must(r.WriteSettings())
	return r
}

func (r *rude) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// begin begins a call that does not end, as a known node.
func (r *rude) begin() (id uint32) {
	r.t.Helper()
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/drover.rpc.v1.Servers/Beat"}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"drover-node", "n"}, {"drover-secret-bin", "cw"},
	} {
		r.must(enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	id = r.next
	r.next += 2
	r.must(r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true}))
	return id
}

// answered returns how the server answers a stream: 0 for anything but a reset. Others
// must not be reset.
func (r *rude) answered(id uint32) http2.ErrCode {
	r.t.Helper()
	for {
		frame, err := r.ReadFrame()
		r.must(err)
		switch f := frame.(type) {
		case *http2.RSTStreamFrame:
			if f.StreamID != id {
				r.t.Fatalf("stream %d is reset: %s", f.StreamID, f.ErrCode)
			}
			return f.ErrCode
		case *http2.GoAwayFrame:
			r.t.Fatalf("the server hangs up: %s", f.ErrCode)
		case *http2.HeadersFrame:
			if f.StreamID == id {
				return 0
			}
		}
	}
}

func TestHostileAConnectionHasABoundedNumberOfStreams(t *testing.T) {
	r := beRude(t, serve(t, &guarded{}))
	first := r.begin()
	for range streams - 1 {
		r.begin()
	}
	for range 3 {
		if code := r.answered(r.begin()); code != http2.ErrCodeRefusedStream {
			t.Fatalf("one stream too many: %s", code)
		}
	}
	r.must(r.WriteRSTStream(first, http2.ErrCodeCancel)) // there is room again
	id := r.begin()
	r.must(r.WriteData(id, true, []byte{0, 0, 0, 0, 1, 0x80})) // an empty message
	if code := r.answered(id); code != 0 {
		t.Errorf("a stream for which there is room: %s", code)
	}
}

// slow answers beats when it is let.
type slow struct {
	guarded
	now, most atomic.Int32
	let       chan struct{}
}

func (s *slow) Beat(context.Context, rpc.Identity) (rpc.Lease, error) {
	now := s.now.Add(1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	<-s.let
	s.now.Add(-1)
	return rpc.Lease{}, nil
}

func TestAClientWaitsWithMoreStreamsThanAConnectionMayHave(t *testing.T) {
	s := &slow{let: make(chan struct{})}
	c := dial(t, s)
	const calls = streams + 50
	errs := make(chan error, calls)
	for range calls {
		go func() {
			_, err := c.Beat(t.Context(), known)
			errs <- err
		}()
	}
	for end := time.Now().Add(time.Minute); s.now.Load() < streams; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d calls are under way", s.now.Load())
		}
	}
	close(s.let)
	for range calls {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if most := s.most.Load(); most > streams {
		t.Errorf("%d calls at a time", most)
	}
}
