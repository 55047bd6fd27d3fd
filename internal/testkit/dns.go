// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package testkit

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a name server whose only names are names of services, for which it has SRV
// records. All of a test's process asks it.
type DNS struct {
	mu    sync.Mutex
	names map[string][]string
}

// NewDNS starts a name server, which this process asks until the test ends. TestMain has called
// UseDNS, and the test is not parallel.
func NewDNS(t *testing.T) *DNS {
	t.Helper()
	if !used {
		t.Fatal("TestMain of this package does not call testkit.UseDNS")
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &DNS{names: map[string][]string{}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		d.serve(conn)
	}()
	address := conn.LocalAddr().String()
	asked.Store(&address)
	t.Cleanup(func() {
		asked.Store(nil)
		_ = conn.Close() // ends serve
		<-served
	})
	return d
}

// asked is the address of the name server of the test that runs; nil means the machine's.
var asked atomic.Pointer[string]

// used tells that the process asks the server in asked.
var used bool

// UseDNS makes this process ask the name server of the test that runs, and without one the
// machine's. TestMain calls it, before anything looks up a name: what a test has stopped may
// do so while the next test runs.
func UseDNS() {
	used = true
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if own := asked.Load(); own != nil {
			network, address = "udp", *own
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
}

// Set makes a name lead to addresses, HOST:PORT, of which the first is preferred; without
// any, the name does not exist.
func (d *DNS) Set(name string, addresses ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[name+"."] = addresses
}

func (d *DNS) serve(conn net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		d.answer(&m)
		if out, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(out, from) // the resolver asks again
		}
	}
}

func (d *DNS) answer(m *dnsmessage.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := m.Questions[0]
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RCode: dnsmessage.RCodeNameError}
	m.Answers, m.Additionals = nil, nil
	for i, a := range d.names[q.Name.String()] {
		m.RCode = dnsmessage.RCodeSuccess
		host, text, _ := net.SplitHostPort(a)
		port, _ := strconv.Atoi(text)
		if q.Type == dnsmessage.TypeSRV {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.SRVResource{Priority: uint16(i), Port: uint16(port), Target: dnsmessage.MustNewName(host + ".")},
			})
		}
	}
}
