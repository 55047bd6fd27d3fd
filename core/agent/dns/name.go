// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns

import (
	"encoding/hex"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// The labels with a meaning of their own, behind which the domain comes.
const (
	namespaceLabel = "ns"   // NAME.NAMESPACE.ns
	addressLabel   = "addr" // HEX.addr: an address itself, for the targets of SRV records
)

// wanted is what a name of the domain asks for.
type wanted struct {
	service   string
	tag       string
	namespace string // "" is the namespace of the client
	// address is set if the name stands for an address; the others are empty then.
	address netip.Addr
}

// parse reads the labels before the domain:
//
//	NAME                     a service of one's own namespace
//	TAG.NAME                 its instances with a tag, which may have dots
//	_NAME._tcp, _NAME._TAG   the same, as RFC 2782 writes it
//	*.NAMESPACE.ns           any of these, of another namespace
//
// ok is false if it is not such a name. Names keep their case, because services may differ by it.
func parse(labels []string) (w wanted, ok bool) {
	n := len(labels)
	if n == 2 && strings.EqualFold(labels[1], addressLabel) {
		if raw, err := hex.DecodeString(labels[0]); err == nil {
			if w.address, ok = netip.AddrFromSlice(raw); ok {
				return w, true
			}
		}
	}
	if n >= 3 && strings.EqualFold(labels[n-1], namespaceLabel) {
		w.namespace, labels = labels[n-2], labels[:n-2]
		n = len(labels)
	}
	if n == 0 {
		return w, false
	}
	if first, is := strings.CutPrefix(labels[0], "_"); is && n == 2 {
		second, is := strings.CutPrefix(labels[1], "_")
		if !is || first == "" {
			return w, false
		}
		w.service = first
		if p := strings.ToLower(second); p != "tcp" && p != "udp" {
			w.tag = second
		}
		return w, true
	}
	w.service, w.tag = labels[n-1], strings.Join(labels[:n-1], ".")
	return w, w.service != ""
}

// leadsOn reports whether there may be names that end with these labels, so that the name
// must not be denied: resolvers that learn a long name label by label (RFC 9156), and those
// that keep what was denied (RFC 8020), would find nothing below it.
func leadsOn(labels []string) bool {
	n := len(labels)
	if n >= 2 && strings.EqualFold(labels[n-1], namespaceLabel) {
		return n == 2 || n == 3 && strings.HasPrefix(labels[0], "_")
	}
	return n == 1 && (strings.EqualFold(labels[0], namespaceLabel) || strings.EqualFold(labels[0], addressLabel) || strings.HasPrefix(labels[0], "_"))
}

// within returns the labels of a name before the domain, and whether it is in the domain.
func within(name, domain string) ([]string, bool) {
	if !dns.IsSubDomain(domain, name) {
		return nil, false
	}
	labels := dns.SplitDomainName(name)
	return labels[:len(labels)-dns.CountLabel(domain)], true
}

// addressName is the name that stands for an address.
func addressName(a netip.Addr, domain string) string {
	return hex.EncodeToString(a.AsSlice()) + "." + addressLabel + "." + domain
}
