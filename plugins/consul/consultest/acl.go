// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consultest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// Grant is what a token allows.
type Grant struct {
	Write []string // names of services
	Keys  []string // prefixes of keys that can be read
	Read  bool     // services can be read
	// TTL is how long it is valid; 0 means until the workload logs out.
	TTL time.Duration

	all bool
}

func (g Grant) service(name string) bool { return g.all || slices.Contains(g.Write, name) }

func (g Grant) key(key string) bool {
	return g.all || slices.ContainsFunc(g.Keys, func(p string) bool { return strings.HasPrefix(key, p) })
}

// Token is a token that a workload got by a login.
type Token struct {
	ID, Secret string
	Method     string // auth method
	Meta       map[string]string
	Grant

	made    time.Time
	unknown int // how often it is still unknown to a reader
}

// logins are the tokens of workloads; Server.mu guards them.
type logins struct {
	tokens map[string]*Token // by secret
	made   int
}

type grantKey struct{}

// of returns what the token of a request allows.
func of(r *http.Request) Grant {
	g, _ := r.Context().Value(grantKey{}).(Grant)
	return g
}

// allowed answers a request that is not allowed.
func allowed(w http.ResponseWriter, ok bool) bool {
	if !ok {
		http.Error(w, "Permission denied", http.StatusForbidden)
	}
	return ok
}

var (
	errNoToken = errors.New("ACL not found")
	//lint:ignore ST1005 the words are Consul's
	errAnonymous = errors.New("Permission denied: anonymous token")
)

// granted returns what the token of a request allows.
func (s *Server) granted(r *http.Request) (Grant, error) {
	secret := r.Header.Get("X-Consul-Token")
	if s.Token == "" || secret == s.Token {
		return Grant{all: true, Read: true}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tokens[secret]
	switch {
	case secret == "":
		return Grant{}, errAnonymous
	case t == nil, t.TTL > 0 && time.Since(t.made) > t.TTL:
		return Grant{}, errNoToken
	}
	return t.Grant, nil
}

// Tokens returns copies of the tokens of workloads, in the order of their ids.
func (s *Server) Tokens() (out []Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b Token) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Logins counts the logins so far.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

// Revoke forgets all tokens of workloads.
func (s *Server) Revoke() { s.change(func() { s.tokens = nil }) }

// acl answers requests about tokens. It returns false for other requests.
func (s *Server) acl(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/v1/acl/login":
		s.login(w, r)
	case "/v1/acl/logout":
		s.logout(w, r)
	case "/v1/acl/token/self":
		s.readSelf(w, r)
	default:
		return false
	}
	return true
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var asked api.ACLLoginParams
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.Login == nil {
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	grant, err := s.Login(asked.AuthMethod, asked.BearerToken)
	if err != nil {
		http.Error(w, "Permission denied: "+err.Error(), http.StatusForbidden)
		return
	}
	t := &Token{Method: asked.AuthMethod, Meta: maps.Clone(asked.Meta), Grant: grant, made: time.Now(), unknown: s.Lag}
	s.change(func() {
		if s.tokens == nil {
			s.tokens = map[string]*Token{}
		}
		s.made++
		t.ID, t.Secret = fmt.Sprintf("accessor-%04d", s.made), fmt.Sprintf("secret-of-a-login-%04d", s.made)
		s.tokens[t.Secret] = t
	})
	write(w, t.acl())
}

func (t *Token) acl() *api.ACLToken {
	out := &api.ACLToken{AccessorID: t.ID, SecretID: t.Secret, AuthMethod: t.Method, CreateTime: t.made, Local: true}
	if t.TTL > 0 {
		end := t.made.Add(t.TTL)
		out.ExpirationTime = &end
	}
	return out
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	known := false
	s.change(func() {
		secret := r.Header.Get("X-Consul-Token")
		known = s.tokens[secret] != nil
		delete(s.tokens, secret)
	})
	if !known {
		http.Error(w, errNoToken.Error(), http.StatusForbidden)
	}
}

func (s *Server) readSelf(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tokens[r.Header.Get("X-Consul-Token")]
	if t == nil || t.unknown > 0 {
		if t != nil {
			t.unknown--
		}
		http.Error(w, errNoToken.Error(), http.StatusForbidden)
		return
	}
	write(w, t.acl())
}
