// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package consultest is a small server of Consul's HTTP API for tests: the agent's services
// and checks, health, catalog, and keys, with blocking queries, one token for everything, and
// logins of workloads with rights of their own. It keeps all in memory and runs no checks.
// Only tests import it.
package consultest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// Server is an agent of Consul.
type Server struct {
	// Token is asked for and may do everything; "" asks for none.
	Token string
	// Login says what a workload may do that shows a signed token to an auth method; nil
	// refuses all.
	Login func(method, bearer string) (Grant, error)
	// Lag is how often a new token is not known yet when it is read.
	Lag int
	// Version is what the agent says; "" means 1.22.0.
	Version string
	// Fault returns the status with which a request is refused; 0 accepts it.
	Fault func(r *http.Request) int

	mu       sync.Mutex
	index    uint64
	changed  chan struct{}
	services map[string]*api.AgentServiceRegistration
	checks   map[string]*api.AgentCheck
	keys     map[string]string
	writes   int
	logins
	http     *http.Server
	listener net.Listener
}

// New returns a server that listens nowhere.
func New() *Server {
	s := &Server{index: 10, changed: make(chan struct{}), keys: map[string]string{}}
	s.forget()
	return s
}

// Listen serves at an address, such as "127.0.0.1:0", until Close.
func (s *Server) Listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen as Consul: %w", err)
	}
	s.listener = l
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(l) }() // until Close
	return nil
}

// Address returns where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close ends it, with the connections. What it knows stays, for another Listen.
func (s *Server) Close() { _ = s.http.Close() }

func (s *Server) forget() {
	s.services, s.checks = map[string]*api.AgentServiceRegistration{}, map[string]*api.AgentCheck{}
}

// Forget loses all services and checks, as an agent does whose data is lost.
func (s *Server) Forget() { s.change(s.forget) }

// Put writes a key, and Remove removes it.
func (s *Server) Put(key, value string) { s.change(func() { s.keys[key] = value }) }

// Remove removes a key.
func (s *Server) Remove(key string) { s.change(func() { delete(s.keys, key) }) }

// Add registers a service that no node of ours offers, without checks.
func (s *Server) Add(id, name, address string, port int, meta map[string]string) {
	s.change(func() {
		s.services[id] = &api.AgentServiceRegistration{ID: id, Name: name, Address: address, Port: port, Meta: meta}
	})
}

// Service returns a service by its id; nil if there is none.
func (s *Server) Service(id string) *api.AgentServiceRegistration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.services[id]
}

// Named returns the services of a name, in the order of their ids.
func (s *Server) Named(name string) (out []*api.AgentServiceRegistration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.services)) {
		if s.services[id].Name == name {
			out = append(out, s.services[id])
		}
	}
	return out
}

// Checks returns copies of the checks of a service, in the order of their ids.
func (s *Server) Checks(service string) (out []api.AgentCheck) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.checks)) {
		if s.checks[id].ServiceID == service {
			out = append(out, *s.checks[id])
		}
	}
	return out
}

// Registrations counts the services that were registered, again or for the first time.
func (s *Server) Registrations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func (s *Server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.index++
	close(s.changed)
	s.changed = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Fault != nil {
		if code := s.Fault(r); code != 0 {
			http.Error(w, http.StatusText(code), code)
			return
		}
	}
	if s.acl(w, r) {
		return
	}
	grant, err := s.granted(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), grantKey{}, grant))
	part := func(prefix string) (string, bool) { return strings.CutPrefix(r.URL.Path, prefix) }
	switch {
	case r.URL.Path == "/v1/agent/self":
		s.self(w)
	case r.URL.Path == "/v1/agent/services":
		s.reply(w, r, s.agentServices)
	case r.URL.Path == "/v1/agent/checks":
		s.reply(w, r, func() any { return s.checks })
	case r.URL.Path == "/v1/agent/service/register":
		s.register(w, r)
	case r.URL.Path == "/v1/catalog/services":
		if !allowed(w, grant.Read) {
			return
		}
		s.wait(r)
		s.reply(w, r, s.names)
	}
	if id, ok := part("/v1/agent/service/deregister/"); ok {
		s.deregister(w, r, id)
	}
	if id, ok := part("/v1/agent/check/update/"); ok {
		s.update(w, r, id)
	}
	if name, ok := part("/v1/health/service/"); ok {
		if !allowed(w, grant.Read) {
			return
		}
		s.wait(r)
		s.reply(w, r, func() any { return s.health(name, r) })
	}
	if key, ok := part("/v1/kv/"); ok {
		if !allowed(w, grant.key(key)) {
			return
		}
		s.wait(r)
		s.kv(w, r, key)
	}
}

func (s *Server) self(w http.ResponseWriter) {
	version := s.Version
	if version == "" {
		version = "1.22.0"
	}
	write(w, map[string]any{
		"Config":      map[string]any{"Datacenter": "dc1", "NodeName": "consul-1", "Version": version, "Revision": "abc", "Server": true},
		"DebugConfig": map[string]any{"ConnectEnabled": true, "GRPCPort": 8502},
	})
}

// write answers a JSON value.
func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone needs no answer
}

// reply answers what f returns under the lock, with the index.
func (s *Server) reply(w http.ResponseWriter, _ *http.Request, f func() any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("X-Consul-Index", strconv.FormatUint(s.index, 10))
	write(w, f())
}

// wait waits as a blocking query asks for it.
func (s *Server) wait(r *http.Request) {
	since, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	limit, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if since == 0 || err != nil {
		return
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	for {
		s.mu.Lock()
		newer, changed := s.index > since, s.changed
		s.mu.Unlock()
		if newer {
			return
		}
		select {
		case <-changed:
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func agentService(x *api.AgentServiceRegistration) *api.AgentService {
	out := &api.AgentService{
		Kind: x.Kind, ID: x.ID, Service: x.Name, Tags: x.Tags, Meta: x.Meta, Port: x.Port, Address: x.Address, TaggedAddresses: x.TaggedAddresses,
		EnableTagOverride: x.EnableTagOverride, Datacenter: "dc1", Weights: api.AgentWeights{Passing: 1, Warning: 1},
	}
	if x.Weights != nil {
		out.Weights = *x.Weights
	}
	return out
}

func (s *Server) agentServices() any {
	out := map[string]*api.AgentService{}
	for id, x := range s.services {
		out[id] = agentService(x)
	}
	return out
}

func (s *Server) names() any {
	out := map[string][]string{"consul": {}}
	for _, x := range s.services {
		out[x.Name] = slices.Compact(slices.Sorted(slices.Values(append(out[x.Name], x.Tags...))))
	}
	return out
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	x := &api.AgentServiceRegistration{}
	if err := json.NewDecoder(r.Body).Decode(x); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if x.Name == "" || len(x.Meta) > 64 {
		http.Error(w, "Invalid service: missing name, or more than 64 pairs of metadata", http.StatusBadRequest)
		return
	}
	if !allowed(w, of(r).service(x.Name)) {
		return
	}
	s.change(func() {
		s.writes++
		maps.DeleteFunc(s.checks, func(_ string, c *api.AgentCheck) bool { return c.ServiceID == x.ID })
		s.services[x.ID] = x
		for _, c := range x.Checks {
			status := c.Status
			if status == "" {
				status = api.HealthCritical
			}
			s.checks[c.CheckID] = &api.AgentCheck{Node: "consul-1", CheckID: c.CheckID, Name: c.Name, Status: status, Notes: c.Notes, ServiceID: x.ID, ServiceName: x.Name}
		}
	})
}

func (s *Server) deregister(w http.ResponseWriter, r *http.Request, id string) {
	known := s.Service(id)
	if known == nil {
		http.Error(w, "Unknown service ID "+id, http.StatusNotFound)
		return
	}
	if !allowed(w, of(r).service(known.Name)) {
		return
	}
	s.change(func() {
		delete(s.services, id)
		maps.DeleteFunc(s.checks, func(_ string, c *api.AgentCheck) bool { return c.ServiceID == id })
	})
}

func (s *Server) update(w http.ResponseWriter, r *http.Request, id string) {
	var said struct{ Status, Output string }
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	c := s.checks[id]
	s.mu.Unlock()
	if c == nil {
		http.Error(w, "Unknown check ID "+id, http.StatusNotFound)
		return
	}
	if !allowed(w, of(r).service(c.ServiceName)) {
		return
	}
	s.change(func() { c.Status, c.Output = said.Status, said.Output })
}

func (s *Server) health(name string, r *http.Request) any {
	tag := r.URL.Query().Get("tag")
	_, passing := r.URL.Query()["passing"]
	out := []*api.ServiceEntry{}
	for _, id := range slices.Sorted(maps.Keys(s.services)) {
		x := s.services[id]
		if x.Name != name || tag != "" && !slices.Contains(x.Tags, tag) {
			continue
		}
		e := &api.ServiceEntry{Node: &api.Node{Node: "consul-1", Address: "192.0.2.10", Datacenter: "dc1"}, Service: agentService(x)}
		for _, c := range s.checks {
			if c.ServiceID == id {
				e.Checks = append(e.Checks, &api.HealthCheck{Node: c.Node, CheckID: c.CheckID, Name: c.Name, Status: c.Status, ServiceID: id})
			}
		}
		if passing && e.Checks.AggregatedStatus() != api.HealthPassing {
			continue
		}
		out = append(out, e)
	}
	return out
}

// kv answers requests about keys.
func (s *Server) kv(w http.ResponseWriter, r *http.Request, key string) {
	switch r.Method {
	case http.MethodPut:
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 512<<10))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.Put(key, string(body))
		write(w, true)
		return
	case http.MethodDelete:
		s.Remove(key)
		write(w, true)
		return
	}
	_, below := r.URL.Query()["recurse"]
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("X-Consul-Index", strconv.FormatUint(s.index, 10))
	out := []*api.KVPair{}
	for _, k := range slices.Sorted(maps.Keys(s.keys)) {
		if k == key || below && strings.HasPrefix(k, key) {
			out = append(out, &api.KVPair{Key: k, Value: []byte(s.keys[k])})
		}
	}
	if len(out) == 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	write(w, out)
}
