// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consulplugin_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/consul/consulplugin"
	"github.com/drover-project/drover/plugins/consul/consultest"
	"github.com/drover-project/drover/sdk/errdefs"
	registry "github.com/drover-project/drover/sdk/registry/v1"
)

// workloads lets in those whose token is the name of a service, with the right to register it.
func workloads(method, bearer string) (consultest.Grant, error) {
	if method != "nomad-workloads" || bearer != "web" && bearer != "api" {
		return consultest.Grant{}, errors.New("no such method or workload")
	}
	return consultest.Grant{Write: []string{bearer}, Keys: []string{"app/" + bearer + "/"}, Read: true}, nil
}

func logIn(t *testing.T, r *consulplugin.Registry, kind registry.LoginFor, token string) *registry.Login {
	t.Helper()
	l, err := r.Login(t.Context(), registry.LoginRequest{Cluster: "default", For: kind, Token: token, Meta: map[string]string{"alloc_id": "a1"}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAWorkloadLogsInAndOut(t *testing.T) {
	s := server(t)
	s.Login, s.Lag = workloads, 2
	r := open(t, s, nil)
	l := logIn(t, r, registry.ForTask, "web")
	if all := s.Tokens(); len(all) != 1 || all[0].ID != l.ID || all[0].Secret != l.Secret || all[0].Meta["alloc_id"] != "a1" || l.TTL != 0 {
		t.Fatalf("logged in as %+v, tokens: %+v", l, all)
	}
	if _, err := r.Login(t.Context(), registry.LoginRequest{Cluster: "default", For: registry.ForTask, Token: "stranger"}); !errdefs.IsPermissionDenied(err) {
		t.Errorf("a stranger: %v", err)
	}
	other := open(t, s, map[string]any{"service_auth_method": "elsewhere"})
	if _, err := other.Login(t.Context(), registry.LoginRequest{Cluster: "default", For: registry.ForService, Token: "web"}); !errdefs.IsPermissionDenied(err) {
		t.Errorf("another auth method: %v", err)
	}
	for range 2 {
		if err := r.Logout(t.Context(), "default", l.Credential); err != nil {
			t.Errorf("log out: %v", err)
		}
	}
	if all := s.Tokens(); len(all) != 0 {
		t.Errorf("tokens after the logout: %+v", all)
	}
	s.Close()
	if err := r.Logout(t.Context(), "default", l.Credential); !errdefs.IsUnavailable(err) {
		t.Errorf("log out while Consul is away: %v", err)
	}
}

func TestALoginSaysHowLongItIsValid(t *testing.T) {
	s := server(t)
	s.Login = func(string, string) (consultest.Grant, error) { return consultest.Grant{TTL: time.Hour}, nil }
	if l := logIn(t, open(t, s, nil), registry.ForService, "web"); l.TTL != time.Hour {
		t.Errorf("valid for %s, want 1h", l.TTL)
	}
}

func TestAServiceIsRegisteredAndRemovedWithItsOwnCredential(t *testing.T) {
	s := server(t)
	s.Login = workloads
	r := open(t, s, nil)
	mine, another := logIn(t, r, registry.ForService, "web"), logIn(t, r, registry.ForService, "api")
	sync := func(c registry.Credential, services ...registry.Registration) []registry.Refusal {
		t.Helper()
		got, err := r.Sync(t.Context(), registry.SyncRequest{Owner: "n1", Cluster: "default", Services: services, Credentials: map[string]registry.Credential{"web-1": c}})
		if err != nil {
			t.Fatal(err)
		}
		return got.Refusals
	}
	if refused := sync(another.Credential, web()); len(refused) != 1 || refused[0].Login || s.Service("web-1") != nil {
		t.Errorf("with the credential of another service: %+v", refused)
	}
	for range 2 {
		if refused := sync(mine.Credential, web()); len(refused) != 0 || s.Service("web-1") == nil {
			t.Errorf("with its own credential: %+v", refused)
		}
	}
	if n := s.Registrations(); n != 1 {
		t.Errorf("registered %d times", n)
	}
	again := logIn(t, r, registry.ForService, "web")
	sync(again.Credential, web())
	if n := s.Registrations(); n != 2 {
		t.Errorf("registered %d times after another login, want once more", n)
	}
	s.Revoke()
	if refused := sync(again.Credential, web()); len(refused) != 1 || !refused[0].Login { // its script's result needs the credential
		t.Errorf("with a credential that Consul does not know: %+v", refused)
	}
	sync(again.Credential)
	if s.Service("web-1") != nil {
		t.Error("a service whose credential was revoked is left")
	}
}

func TestATaskReadsWithItsOwnCredential(t *testing.T) {
	s := server(t)
	s.Login = workloads
	s.Put("app/web/color", "red")
	s.Put("app/api/color", "blue")
	r := open(t, s, nil)
	l := logIn(t, r, registry.ForTask, "web")
	ask := func(key string) (*registry.Answer, error) {
		return r.Query(t.Context(), registry.Query{Cluster: "default", Kind: registry.QueryKey, Name: key, Credential: &l.Credential})
	}
	if a, err := ask("app/web/color"); err != nil || !slices.Equal(a.Pairs[0].Value, []byte("red")) {
		t.Errorf("its own key: %+v, %v", a, err)
	}
	if _, err := ask("app/api/color"); !errdefs.IsPermissionDenied(err) || errdefs.ReasonOf(err) == registry.ReasonLogin {
		t.Errorf("the key of another: %v", err)
	}
	s.Revoke()
	if _, err := ask("app/web/color"); !errdefs.IsPermissionDenied(err) || errdefs.ReasonOf(err) != registry.ReasonLogin {
		t.Errorf("after the token was revoked: %v, reason %q", err, errdefs.ReasonOf(err))
	}
}
