// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns

import (
	"context"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// services answers a question about the domain. m is the answer to fill in, which is
// authoritative.
func (s *Server) services(ctx context.Context, m *dns.Msg, labels []string, client netip.Addr) {
	q := m.Question[0]
	m.Authoritative = true
	defer func() {
		if len(m.Answer) == 0 && m.Rcode != dns.RcodeServerFailure {
			m.Ns = append(m.Ns, s.soa())
		}
	}()
	if len(labels) == 0 {
		s.apex(m)
		return
	}
	w, ok := parse(labels)
	if !ok {
		m.Rcode = dns.RcodeNameError
		return
	}
	if w.address.IsValid() {
		m.Answer = append(m.Answer, addresses(q.Name, q.Qtype, s.ttl(), []netip.Addr{w.address})...)
		return
	}
	if w.namespace == "" {
		w.namespace = s.namespaceOf(client)
	}
	list, between, err := s.instances(ctx, w, client)
	switch {
	case err != nil:
		m.Rcode = dns.RcodeServerFailure
		return
	case len(list) == 0:
		if !between && !leadsOn(labels) {
			m.Rcode = dns.RcodeNameError
		}
		return
	}
	// Clients take the first: each gets its turn.
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	switch q.Qtype {
	case dns.TypeA, dns.TypeAAAA:
		s.hosts(ctx, m, list, client)
	case dns.TypeSRV:
		s.srv(m, list)
	case dns.TypeANY: // RFC 8482
		m.Answer = append(m.Answer, &dns.HINFO{Hdr: s.header(q.Name, dns.TypeHINFO), Cpu: "RFC8482"})
	}
}

// instances returns the instances of a service. Upper and lower case differ in names of
// services but not in names of the DNS, so the name in lower case is tried if nothing has the
// name as it was asked. between says that there are only longer names: it is the end of a tag
// with dots.
func (s *Server) instances(ctx context.Context, w wanted, client netip.Addr) (out []Instance, between bool, err error) {
	mayFollow := func() bool { return s.clients.fresh(client) }
	list, err := s.names.lookup(ctx, serviceKey{w.namespace, w.service}, mayFollow)
	if low := (serviceKey{strings.ToLower(w.namespace), strings.ToLower(w.service)}); err == nil && len(list) == 0 && low != (serviceKey{w.namespace, w.service}) {
		list, err = s.names.lookup(ctx, low, mayFollow)
	}
	if err != nil {
		return nil, false, err
	}
	end := "." + strings.ToLower(w.tag)
	for _, i := range list {
		if w.tag == "" || slices.ContainsFunc(i.Tags, func(t string) bool { return strings.EqualFold(t, w.tag) }) {
			out = append(out, i)
		}
		between = between || slices.ContainsFunc(i.Tags, func(t string) bool { return strings.HasSuffix(strings.ToLower(t), end) })
	}
	return out, between, nil
}

// maxRecords is how many instances an answer has at most. If there are more, it has a random
// selection.
const maxRecords = 1000

// hosts answers with the addresses of instances. If all of them are names of machines, one of
// these is the answer, with what other resolvers say of it.
func (s *Server) hosts(ctx context.Context, m *dns.Msg, list []Instance, client netip.Addr) {
	q := m.Question[0]
	var ips []netip.Addr
	host := ""
	for _, i := range list {
		if ip, err := netip.ParseAddr(i.Address); err == nil {
			if ip = ip.Unmap().WithZone(""); !slices.Contains(ips, ip) && len(ips) < maxRecords {
				ips = append(ips, ip)
			}
		} else if _, fits := dns.IsDomainName(i.Address); fits && host == "" {
			host = dns.Fqdn(i.Address)
		}
	}
	if len(ips) > 0 || host == "" {
		m.Answer = append(m.Answer, addresses(q.Name, q.Qtype, s.ttl(), ips)...)
		return
	}
	m.Answer = append(m.Answer, &dns.CNAME{Hdr: s.header(q.Name, dns.TypeCNAME), Target: host})
	s.follow(ctx, m, host, client)
}

// maxAliases is how many names an answer has that stand for one another.
const maxAliases = 8

// follow adds to an answer what is known of a name that stands for the one that was asked: most
// clients do not ask for it by themselves.
func (s *Server) follow(ctx context.Context, m *dns.Msg, name string, client netip.Addr) {
	ask := new(dns.Msg).SetQuestion(name, m.Question[0].Qtype)
	if labels, ours := within(name, s.domain); ours {
		known := slices.ContainsFunc(m.Answer, func(rr dns.RR) bool { return strings.EqualFold(rr.Header().Name, name) })
		if known || len(m.Answer) == maxAliases {
			m.Rcode = dns.RcodeServerFailure // the names lead in a circle
			return
		}
		ask.Answer = m.Answer // so that circles are seen
		s.services(ctx, ask, labels, client)
		m.Answer, m.Rcode = ask.Answer, ask.Rcode
		return
	}
	if !s.forward.recursors.any() {
		return
	}
	got, err := s.forward.ask(ctx, ask)
	if err != nil {
		m.Rcode = dns.RcodeServerFailure
		return
	}
	m.Answer, m.Rcode = append(m.Answer, got.Answer...), got.Rcode
}

// srv answers with the ports of instances, and with the addresses of their names.
func (s *Server) srv(m *dns.Msg, list []Instance) {
	var ips []netip.Addr
	for _, i := range list[:min(len(list), maxRecords)] {
		target := ""
		if ip, err := netip.ParseAddr(i.Address); err == nil {
			ip = ip.Unmap().WithZone("")
			target = addressName(ip, s.domain)
			if !slices.Contains(ips, ip) {
				ips = append(ips, ip)
			}
		} else if _, fits := dns.IsDomainName(i.Address); fits {
			target = dns.Fqdn(i.Address)
		}
		if target == "" || i.Port < 1 || i.Port > 65535 {
			continue
		}
		rr := &dns.SRV{Hdr: s.header(m.Question[0].Name, dns.TypeSRV), Priority: 1, Weight: weightOf(i), Port: uint16(i.Port), Target: target}
		if !slices.ContainsFunc(m.Answer, func(o dns.RR) bool { return dns.IsDuplicate(o, rr) }) {
			m.Answer = append(m.Answer, rr)
		}
	}
	for _, ip := range ips {
		name := addressName(ip, s.domain)
		m.Extra = append(m.Extra, addresses(name, dns.TypeA, s.ttl(), []netip.Addr{ip})...)
		m.Extra = append(m.Extra, addresses(name, dns.TypeAAAA, s.ttl(), []netip.Addr{ip})...)
	}
}

// weightOf returns the weight of an instance within what a record can hold.
func weightOf(i Instance) uint16 {
	if i.Weight < 1 {
		return 1
	}
	return uint16(min(i.Weight, math.MaxUint16))
}

// addresses returns the records of those addresses that are of the type.
func addresses(name string, qtype uint16, ttl uint32, ips []netip.Addr) (out []dns.RR) {
	for _, ip := range ips {
		header := dns.RR_Header{Name: name, Rrtype: qtype, Class: dns.ClassINET, Ttl: ttl}
		switch {
		case qtype == dns.TypeA && ip.Is4():
			out = append(out, &dns.A{Hdr: header, A: ip.AsSlice()})
		case qtype == dns.TypeAAAA && ip.Is6():
			out = append(out, &dns.AAAA{Hdr: header, AAAA: ip.AsSlice()})
		}
	}
	return out
}

// apex answers questions about the domain itself.
func (s *Server) apex(m *dns.Msg) {
	switch m.Question[0].Qtype {
	case dns.TypeSOA:
		m.Answer = append(m.Answer, s.soa())
	case dns.TypeNS:
		m.Answer = append(m.Answer, &dns.NS{Hdr: s.header(s.domain, dns.TypeNS), Ns: s.domain})
	}
}

// soa says for how long it may be remembered that there is no record: as long as for any.
func (s *Server) soa() dns.RR {
	return &dns.SOA{
		Hdr: s.header(s.domain, dns.TypeSOA), Ns: s.domain, Mbox: "hostmaster." + s.domain,
		Serial: uint32(s.cfg.Now().Unix()), Refresh: 3600, Retry: 600, Expire: 86400, Minttl: s.ttl(),
	}
}

func (s *Server) header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: s.ttl()}
}

func (s *Server) ttl() uint32 { return uint32(s.cfg.TTL.Seconds()) }
