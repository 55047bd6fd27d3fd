// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// DNS configures the DNS server of a node. The reference has no such block.
type DNS struct {
	Enabled   bool     `json:"enabled,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Port      int      `json:"port,omitempty"`
	Domain    string   `json:"domain,omitempty"`
	TTL       string   `json:"ttl,omitempty"`
	// Tasks says whether groups with a network of mode "bridge" get the server as their
	// resolver; nil means yes, if the port is the one on which they ask.
	Tasks     *bool    `json:"tasks,omitempty"`
	Recursors []string `json:"recursors,omitempty"`
	Allow     []string `json:"allow,omitempty"`
	Rate      *int     `json:"rate,omitempty"`
}

// Names are the settings of the DNS server, with defaults.
type Names struct {
	Addresses []netip.Addr
	Port      int
	Domain    string
	TTL       time.Duration
	Tasks     bool
	// Recursors are addresses with ports, and absolute paths of files that name some.
	Recursors []string
	Allow     []netip.Prefix
	Rate      int
}

const (
	dnsPort       = 53 // the one on which every resolver asks
	dnsRate       = 1000
	maxDNSTTL     = 24 * time.Hour
	maxRecursors  = 16
	defaultDomain = "service.drover"
)

// private are the networks from which questions are answered by default: a server that
// answers everybody is used for attacks on others.
var private = []string{"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "fc00::/7", "fe80::/10"}

// domainName is a domain of letters, digits, hyphens and underscores.
var domainName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*$`)

// Names returns the settings, or everything that is wrong with them.
func (d *DNS) Names() (Names, error) {
	n := Names{Port: cmp.Or(d.Port, dnsPort), Domain: strings.TrimSuffix(cmp.Or(d.Domain, defaultDomain), "."), Rate: dnsRate}
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf("dns."+format, args...)) }
	for _, text := range orElse(d.Addresses, "127.0.0.1") {
		a, err := netip.ParseAddr(text)
		if err != nil {
			add("addresses: %q is not an IP address of this machine", text)
		}
		n.Addresses = append(n.Addresses, a)
	}
	if n.Port < 1 || n.Port > 65535 {
		add("port %d is not a port", n.Port)
	}
	// A name of the domain has a service, and may have a tag and a namespace.
	if len(n.Domain) > 120 || !domainName.MatchString(n.Domain) {
		add("domain %q is not a domain of at most 120 bytes, such as service.drover", d.Domain)
	}
	ttl, err := ParseDuration(d.TTL)
	if err != nil || ttl < 0 || ttl > maxDNSTTL || ttl%time.Second != 0 {
		add("ttl %q is not a number of seconds from 0s to 24h", d.TTL)
	}
	n.TTL = ttl
	n.Tasks = n.Port == dnsPort
	if d.Tasks != nil {
		if n.Tasks = *d.Tasks; n.Tasks && n.Port != dnsPort {
			add("tasks: tasks ask on port %d only, and port is %d; leave one of them out", dnsPort, n.Port)
		}
	}
	if len(d.Recursors) > maxRecursors {
		add("recursors are %d; there may be %d", len(d.Recursors), maxRecursors)
	}
	for _, text := range d.Recursors {
		r, err := recursor(text)
		if err != nil {
			add("recursors: %w", err)
		}
		n.Recursors = append(n.Recursors, r)
	}
	for _, text := range orElse(d.Allow, private...) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			add("allow: %q is not a network such as 10.0.0.0/8", text)
		}
		n.Allow = append(n.Allow, p.Masked())
	}
	if d.Rate != nil {
		if n.Rate = *d.Rate; n.Rate < 0 || n.Rate > 1_000_000 {
			add("rate %d is not a number of questions per second from 0, which is no limit, to 1000000", n.Rate)
		}
	}
	return n, errors.Join(problems...)
}

func orElse(given []string, otherwise ...string) []string {
	if len(given) > 0 {
		return given
	}
	return otherwise
}

// recursor returns an address with its port, or a path.
func recursor(text string) (string, error) {
	if strings.HasPrefix(text, "/") {
		return text, nil
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a, dnsPort).String(), nil
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil || a.Port() == 0 {
		return "", fmt.Errorf("%q is neither an address such as 192.0.2.53 or 192.0.2.53:5353 nor the path of a file such as /etc/resolv.conf", text)
	}
	return a.String(), nil
}

// dnsProblems lists what is wrong with the block.
func (c *Config) dnsProblems() (out []string) {
	_, err := c.DNS.Names()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			out = append(out, one.Error())
		}
	}
	if c.DNS.Enabled && !c.Client.Enabled {
		out = append(out, "dns: only a node answers DNS questions; set client { enabled = true }, or remove dns")
	}
	return out
}

// dnsWarnings names what of the block will surprise.
func (c *Config) dnsWarnings() (out []string) {
	n, err := c.DNS.Names()
	if err == nil && c.DNS.Enabled && n.Tasks && len(n.Recursors) == 0 {
		out = append(out, "dns: tasks of groups with mode \"bridge\" find names of "+n.Domain+" only, because dns.recursors names nobody who knows others; set recursors = [\"/etc/resolv.conf\"], or tasks = false")
	}
	return out
}
