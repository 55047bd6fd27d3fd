// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/dns"
	"github.com/drover-project/drover/core/rpc"
)

// DNS configures the node's DNS server.
type DNS struct {
	Addresses []netip.Addr
	Port      int
	Domain    string
	TTL       time.Duration
	Recursors []string
	Allow     []netip.Prefix
	Rate      int
	// Tasks gives the server to groups with a network of mode "bridge" as their resolver.
	Tasks bool
}

// resolver is the node's DNS server, as its tasks see it.
type resolver struct {
	agent  *Agent
	server *dns.Server

	mu     sync.Mutex
	failed map[netip.Addr]bool
}

// openDNS starts the DNS server, if there is to be one.
func (a *Agent) openDNS(run *alloc.Config) error {
	c := a.cfg.DNS
	if c == nil {
		return nil
	}
	r := &resolver{agent: a, failed: map[netip.Addr]bool{}}
	r.server = dns.New(dns.Config{
		Domain: c.Domain, Port: c.Port, TTL: c.TTL, Recursors: c.Recursors, Allow: c.Allow, Rate: c.Rate,
		Source: serviceSource{a}, NamespaceOf: r.namespaceOf, Now: time.Now, Logger: a.cfg.Logger.Named("dns"),
	})
	a.dns = r
	for _, at := range c.Addresses {
		if err := r.server.Listen(at); err != nil {
			return err
		}
	}
	a.cfg.Logger.Info("DNS questions are answered", "domain", c.Domain, "addresses", r.server.Addresses())
	if c.Tasks {
		run.Resolver = r
	}
	return nil
}

// Answers implements alloc.Resolver. The bridge has its address only while it exists, so the
// server listens there when the first group needs it.
func (r *resolver) Answers(gateway netip.Addr) bool {
	err := r.server.Listen(gateway)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && !r.failed[gateway] {
		r.agent.cfg.Logger.Error("tasks get the machine's resolver and not the agent's", "address", gateway, "error", err)
	}
	r.failed[gateway] = err != nil
	return err == nil
}

// Search implements alloc.Resolver.
func (r *resolver) Search() (domains, options []string) {
	s := r.server.Search()
	if s.Dots > 0 {
		options = []string{fmt.Sprintf("ndots:%d", s.Dots)}
	}
	return s.Domains, options
}

// restore makes the resolver answer tasks that an earlier process of the agent has started.
func (r *resolver) restore() {
	if r == nil || !r.agent.cfg.DNS.Tasks {
		return
	}
	for _, one := range r.agent.allocs.Runners() {
		for _, g := range one.Gateways() {
			r.Answers(g)
		}
	}
}

// namespaceOf returns the namespace of the alloc that has an address.
func (r *resolver) namespaceOf(client netip.Addr) string {
	set := r.agent.running.Load()
	if client.IsLoopback() || set == nil {
		return ""
	}
	for _, one := range set.Runners() {
		if one.HasAddress(client) {
			return one.Alloc().Namespace
		}
	}
	return ""
}

func (r *resolver) close() {
	if r != nil {
		r.server.Close()
	}
}

// serviceSource is where the DNS server gets the instances of services: the servers.
type serviceSource struct{ agent *Agent }

// Instances implements dns.Source.
func (s serviceSource) Instances(ctx context.Context, namespace, service string, since uint64, wait time.Duration) (dns.Answer, error) {
	ask := rpc.ServiceQuery{Namespace: namespace, Name: service, Names: true, Since: since, Wait: wait}
	got, err := s.agent.cfg.Servers.Services(ctx, s.agent.session.Identity(), ask)
	if err != nil {
		return dns.Answer{}, err
	}
	out := dns.Answer{Index: got.Index}
	for _, i := range got.Instances {
		if i != nil && !i.Failing {
			out.Instances = append(out.Instances, dns.Instance{ID: i.ID, Address: i.Address, Port: i.Port, Tags: i.Tags, Weight: i.Weight})
		}
	}
	return out, nil
}
