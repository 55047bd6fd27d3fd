// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// reread is how old the content of a file with resolvers may be.
	reread = 5 * time.Second
	// maxServers is how many resolvers of a file are asked.
	maxServers = 8
)

// recursors are the resolvers to which other questions go: addresses, and those that files
// such as /etc/resolv.conf name.
type recursors struct {
	given []string
	// self reports whether an address is one on which this server listens: asking that
	// would go on forever.
	self func(netip.AddrPort) bool
	now  func() time.Time
	warn func(file string, err error)

	mu   sync.Mutex
	read time.Time
	last found
}

// found is what files and addresses say.
type found struct {
	servers []netip.AddrPort
	search  Search
}

// Search says which domains a resolver appends to short names.
type Search struct {
	Domains []string
	// Dots is how many dots a name must have to be asked for as it is first; 0 is not said.
	Dots int
}

// any reports whether other questions are passed on at all.
func (r *recursors) any() bool { return len(r.given) > 0 }

// list returns the resolvers as they are now.
func (r *recursors) list() []netip.AddrPort { return r.found().servers }

// found returns what is given and in the files now.
func (r *recursors) found() found {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); r.read.IsZero() || now.Sub(r.read) > reread || now.Before(r.read) {
		r.last, r.read = r.look(), now
	}
	return r.last
}

func (r *recursors) look() (out found) {
	add := func(a netip.AddrPort, err error) {
		if a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port()); err == nil && !r.self(a) {
			out.servers = append(out.servers, a)
		}
	}
	for _, one := range r.given {
		if !strings.HasPrefix(one, "/") {
			add(netip.ParseAddrPort(one))
			continue
		}
		f, err := os.Open(one)
		if err != nil {
			r.warn(one, err) // it may come back
			continue
		}
		conf, err := dns.ClientConfigFromReader(f)
		_ = f.Close() // only read
		if err != nil {
			r.warn(one, err)
			continue
		}
		if len(out.search.Domains) == 0 { // the first file that has some
			out.search = Search{Domains: conf.Search}
			if conf.Ndots > 1 {
				out.search.Dots = conf.Ndots
			}
		}
		for _, server := range conf.Servers[:min(len(conf.Servers), maxServers)] {
			add(netip.ParseAddrPort(net.JoinHostPort(server, conf.Port)))
		}
	}
	return out
}
