// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns_test

import (
	"cmp"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/miekg/dns"

	names "github.com/drover-project/drover/core/agent/dns"
)

// recorder is a client over UDP that keeps what it gets.
type recorder struct {
	dns.ResponseWriter
	from string
	got  *dns.Msg
}

func (r *recorder) RemoteAddr() net.Addr {
	return net.UDPAddrFromAddrPort(netip.MustParseAddrPort(cmp.Or(r.from, "127.0.0.1:40000")))
}

func (r *recorder) WriteMsg(m *dns.Msg) error {
	r.got = m
	return nil
}

// FuzzPackets answers arbitrary packets: nothing panics, and no answer is longer than the
// client can take, or not the answer to the question.
func FuzzPackets(f *testing.F) {
	for _, name := range []string{"web.service.drover.", "_web._tcp.service.drover.", "a.b.ns.service.drover.", "0a000001.addr.service.drover.", "service.drover.", "example.com.", ".", "\\\\000.service.drover.", "*.service.drover."} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV, dns.TypeANY, dns.TypeOPT, dns.TypeAXFR} {
			m := new(dns.Msg).SetQuestion(name, qtype).SetEdns0(4096, true)
			if raw, err := m.Pack(); err == nil {
				f.Add(raw)
				f.Add(raw[:len(raw)-3])
			}
		}
	}
	s := names.New(names.Config{
		Domain: "service.drover", Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Source: newWorld(),
		NamespaceOf: func(netip.Addr) string { return "" }, Now: time.Now, Logger: hclog.NewNullLogger(),
	})
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := new(dns.Msg)
		if r.Unpack(raw) != nil {
			return // which the library refuses
		}
		w := &recorder{}
		s.ServeDNS(w, r)
		if w.got == nil {
			return
		}
		size := dns.MinMsgSize
		if opt := r.IsEdns0(); opt != nil {
			size = min(max(int(opt.UDPSize()), size), 1232)
		}
		out, err := w.got.Pack()
		if err != nil {
			t.Fatalf("the answer cannot be sent: %v\n%s", err, w.got)
		}
		if len(out) > size && len(out) > len(raw)+64 || w.got.Id != r.Id || !w.got.Response {
			t.Errorf("%d bytes for a client that takes %d:\n%s", len(out), size, w.got)
		}
	})
}
