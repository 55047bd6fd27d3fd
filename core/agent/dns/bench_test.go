// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/miekg/dns"

	names "github.com/drover-project/drover/core/agent/dns"
)

// BenchmarkQuestions asks for a service of ten instances over UDP, one question after another.
func BenchmarkQuestions(b *testing.B) {
	w := newWorld()
	for i := range 10 {
		w.services["default/ten"] = append(w.services["default/ten"], names.Instance{ID: fmt.Sprint(i), Address: fmt.Sprintf("10.3.0.%d", i), Port: 80})
	}
	at := listen(b, w)
	for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV} {
		b.Run(dns.TypeToString[qtype], func(b *testing.B) {
			c, err := dns.Dial("udp", at)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			c.UDPSize = 1232
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				m := new(dns.Msg).SetQuestion("ten.service.drover.", qtype).SetEdns0(1232, false)
				if err := c.WriteMsg(m); err != nil {
					b.Fatal(err)
				}
				if got, err := c.ReadMsg(); err != nil || len(got.Answer) != 10 {
					b.Fatal(got, err)
				}
				took = append(took, time.Since(began))
			}
			percentiles(b, took)
		})
	}
}

// BenchmarkChange measures from a change at the source until the answer has it.
func BenchmarkChange(b *testing.B) {
	w := newWorld()
	at := listen(b, w)
	c := dns.Client{}
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		want := fmt.Sprintf("10.4.%d.%d", n/250%250, n%250)
		began := time.Now()
		w.set("default/web", names.Instance{ID: "1", Address: want})
		for {
			got, _, err := c.Exchange(new(dns.Msg).SetQuestion("web.service.drover.", dns.TypeA), at)
			if err != nil {
				b.Fatal(err)
			}
			if slices.Equal(shown(got.Answer), []string{want}) {
				break
			}
		}
		took = append(took, time.Since(began))
	}
	percentiles(b, took)
}

func listen(b *testing.B, source names.Source) string {
	b.Helper()
	s := names.New(names.Config{
		Domain: "service.drover", Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Source: source,
		NamespaceOf: func(netip.Addr) string { return "" }, Now: time.Now, Logger: hclog.NewNullLogger(),
	})
	b.Cleanup(s.Close)
	if err := s.Listen(netip.MustParseAddr("127.0.0.1")); err != nil {
		b.Fatal(err)
	}
	return s.Addresses()[0].String()
}

func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
