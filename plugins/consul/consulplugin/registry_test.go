// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consulplugin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/drover-project/drover/plugins/consul/consulplugin"
	"github.com/drover-project/drover/plugins/consul/consultest"
	"github.com/drover-project/drover/sdk/errdefs"
	registry "github.com/drover-project/drover/sdk/registry/v1"
	"github.com/drover-project/drover/sdk/registry/v1/registrytest"
)

// server starts an agent of Consul that asks for a token.
func server(t *testing.T) *consultest.Server {
	t.Helper()
	s := consultest.New()
	s.Token = "secret"
	if err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func block(s *consultest.Server) map[string]any {
	return map[string]any{"cluster": []any{map[string]any{"address": s.Address(), "token": "secret"}}}
}

// open returns a registry with one cluster.
func open(t *testing.T, s *consultest.Server, more map[string]any) *consulplugin.Registry {
	t.Helper()
	c := map[string]any{"name": "default", "address": s.Address(), "token": "secret", "verify_ssl": true, "timeout": "30s"}
	for k, v := range more {
		c[k] = v
	}
	body, err := json.Marshal(map[string]any{"cluster": []any{c}})
	if err != nil {
		t.Fatal(err)
	}
	r := consulplugin.New()
	if err := r.SetConfig(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheRegistryKeepsTheContract(t *testing.T) {
	s := server(t)
	registrytest.Run(t, registrytest.Options{New: func(*testing.T) registry.Registry { return consulplugin.New() }, Config: block(s)})
}

func web() registry.Registration {
	return registry.Registration{
		ID: "web-1", Name: "web", Address: "10.0.0.1", Port: 8080, Tags: []string{"blue"}, Meta: map[string]string{"k": "v"},
		Weights: &registry.Weights{Passing: 3, Warning: 1}, TaggedAddresses: map[string]registry.Endpoint{"wan": {Address: "192.0.2.1", Port: 80}},
		Checks: []registry.Check{
			{ID: "web-1-http", Name: "alive", Type: registry.CheckHTTP, Address: "10.0.0.1:8080", Interval: 10 * time.Second, Timeout: time.Second, HTTP: &registry.HTTP{Scheme: "http", Path: "/health", Method: "HEAD"}},
			{ID: "web-1-tcp", Name: "open", Type: registry.CheckTCP, Address: "10.0.0.1:8080", Interval: 10 * time.Second, Timeout: time.Second},
			{ID: "web-1-grpc", Name: "serving", Type: registry.CheckGRPC, Address: "10.0.0.1:8080", Interval: 10 * time.Second, Timeout: time.Second, GRPC: &registry.GRPC{Service: "shop", TLS: true}},
			{ID: "web-1-script", Name: "script", Type: registry.CheckReport, Report: &registry.Report{Status: registry.StatusWarning, Output: "careful", TTL: time.Minute}},
		},
	}
}

func synchronise(t *testing.T, r *consulplugin.Registry, services ...registry.Registration) []registry.Refusal {
	t.Helper()
	got, err := r.Sync(t.Context(), registry.SyncRequest{Owner: "n1", Cluster: "default", Services: services})
	if err != nil {
		t.Fatal(err)
	}
	return got.Refusals
}

func TestAServiceIsRegisteredWithEverything(t *testing.T) {
	s := server(t)
	r := open(t, s, map[string]any{"tags": []string{"of-the-node"}})
	synchronise(t, r, web())
	got := s.Service("web-1")
	if got == nil || got.Name != "web" || got.Address != "10.0.0.1" || got.Port != 8080 || !slices.Equal(got.Tags, []string{"blue", "of-the-node"}) ||
		got.Meta["k"] != "v" || got.Meta["external-source"] != "nomad" || got.Weights.Passing != 3 || got.TaggedAddresses["wan"] != (api.ServiceAddress{Address: "192.0.2.1", Port: 80}) {
		t.Fatalf("registered: %+v", got)
	}
	c := got.Checks
	if len(c) != 4 || c[0].HTTP != "http://10.0.0.1:8080/health" || c[0].Method != "HEAD" || c[1].TCP != "10.0.0.1:8080" || c[2].GRPC != "10.0.0.1:8080/shop" || !c[2].GRPCUseTLS || c[3].TTL != "1m0s" {
		t.Errorf("checks: %+v", c)
	}
	if all := s.Checks("web-1"); all[2].Status != "warning" || all[2].Output != "careful" {
		t.Errorf("the check that the node runs: %+v", all[2])
	}
}

func TestOnlyWhatDiffersIsRegisteredAgain(t *testing.T) {
	s := server(t)
	r := open(t, s, nil)
	expect := func(when string, want int) {
		t.Helper()
		if got := s.Registrations(); got != want {
			t.Errorf("%s: %d registrations, want %d", when, got, want)
		}
	}
	for range 3 {
		synchronise(t, r, web())
	}
	expect("the same thrice", 1)
	again := web()
	again.Checks[3].Report.Status = registry.StatusPassing
	synchronise(t, r, again)
	expect("a result", 1)
	if got := s.Checks("web-1")[2].Status; got != "passing" {
		t.Errorf("the result is %s", got)
	}
	again.Tags = []string{"green"}
	synchronise(t, r, again)
	expect("other tags", 2)
	s.Forget()
	synchronise(t, r, again)
	expect("after the agent lost its state", 3)
	free := again
	free.EnableTagOverride = true
	synchronise(t, r, free)
	s.Service("web-1").Tags = []string{"of-another"}
	free.Tags = []string{"red"}
	synchronise(t, r, free)
	expect("tags that others may change", 4)
	if got := s.Service("web-1").Tags; !slices.Equal(got, []string{"of-another"}) {
		t.Errorf("the tags are %q", got)
	}
}

func TestServicesOfOthersStay(t *testing.T) {
	s := server(t)
	client, err := api.NewClient(&api.Config{Address: s.Address(), Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: "mine", Name: "mine"}); err != nil {
		t.Fatal(err)
	}
	r := open(t, s, nil)
	synchronise(t, r, web())
	synchronise(t, r)
	if s.Service("mine") == nil || s.Service("web-1") != nil {
		t.Errorf("services: mine %v, web-1 %v", s.Service("mine"), s.Service("web-1"))
	}
}

func TestErrorsHaveTheirClass(t *testing.T) {
	s := server(t)
	bad := open(t, s, map[string]any{"token": "wrong"})
	if _, err := bad.Sync(t.Context(), registry.SyncRequest{Owner: "n1", Cluster: "default"}); !errdefs.IsPermissionDenied(err) {
		t.Errorf("with another token: %v", err)
	}
	nowhere := open(t, s, map[string]any{"address": "127.0.0.1:1"})
	if _, err := nowhere.Sync(t.Context(), registry.SyncRequest{Owner: "n1", Cluster: "default"}); !errdefs.IsUnavailable(err) {
		t.Errorf("without an agent: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	prints, err := nowhere.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f := <-prints
	if cancel(); f.Clusters[0].Healthy || !strings.Contains(f.Clusters[0].Problem, "127.0.0.1:1") || len(f.Clusters[0].Attributes) > 0 {
		t.Errorf("fingerprint without an agent: %+v", f)
	}
	for range prints {
	}
	if err := consulplugin.New().SetConfig(t.Context(), []byte(`{"cluster":[{"name":"a"},{"name":"a"}]}`)); !errdefs.IsInvalidArgument(err) {
		t.Errorf("two clusters of one name: %v", err)
	}
}

func TestAttributesSayWhatAClusterIs(t *testing.T) {
	s := server(t)
	ctx, cancel := context.WithCancel(t.Context())
	for name, want := range map[string]string{"default": "consul.version", "east": "consul.east.version"} {
		prints, err := open(t, s, map[string]any{"name": name}).Fingerprint(ctx)
		if err != nil {
			t.Fatal(err)
		}
		f := <-prints
		if !f.Clusters[0].Healthy || f.Clusters[0].Attributes[want] != "1.22.0" {
			t.Errorf("cluster %s: %+v", name, f)
		}
		defer func() {
			for range prints {
			}
		}()
	}
	defer cancel()
}

func TestQueriesWaitForChanges(t *testing.T) {
	s := server(t)
	r := open(t, s, nil)
	ask := func(q registry.Query) *registry.Answer {
		t.Helper()
		q.Cluster = "default"
		a, err := r.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := ask(registry.Query{Kind: registry.QueryKey, Name: "app/color"}); a.Found || a.Index == 0 {
		t.Errorf("a key that is not there: %+v", a)
	}
	s.Put("app/color", "red")
	s.Put("app/size", "xl")
	a := ask(registry.Query{Kind: registry.QueryKey, Name: "app/color"})
	if !a.Found || string(a.Pairs[0].Value) != "red" {
		t.Fatalf("the key: %+v", a)
	}
	if all := ask(registry.Query{Kind: registry.QueryKeys, Name: "app/"}); len(all.Pairs) != 2 || all.Pairs[1].Key != "app/size" {
		t.Errorf("the keys: %+v", all)
	}
	next := make(chan *registry.Answer, 1)
	go func() {
		b, _ := r.Query(context.Background(), registry.Query{Cluster: "default", Kind: registry.QueryKey, Name: "app/color", Since: a.Index, Wait: time.Minute})
		next <- b
	}()
	s.Put("app/color", "green")
	if b := <-next; b == nil || string(b.Pairs[0].Value) != "green" {
		t.Errorf("after a change: %+v", b)
	}
	synchronise(t, r, web())
	if got := ask(registry.Query{Kind: registry.QueryService, Name: "web"}); len(got.Instances) != 0 {
		t.Errorf("an instance whose checks fail: %+v", got)
	}
	if got := ask(registry.Query{Kind: registry.QueryService, Name: "web", Unhealthy: true}); len(got.Instances) != 1 || got.Instances[0].Port != 8080 || got.Instances[0].Status != registry.StatusCritical {
		t.Errorf("all instances: %+v", got)
	}
	if got := ask(registry.Query{Kind: registry.QueryServices}); len(got.Services) != 2 || got.Services[1].Name != "web" {
		t.Errorf("all services: %+v", got)
	}
}

func TestAServiceThatMayNotBeRemovedKeepsNoOther(t *testing.T) {
	s := server(t)
	r := open(t, s, nil)
	one, two := web(), web()
	two.ID, two.Checks = "web-2", nil
	synchronise(t, r, one, two)
	s.Fault = func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/deregister/web-1") {
			return http.StatusForbidden
		}
		return 0
	}
	_, err := r.Sync(t.Context(), registry.SyncRequest{Owner: "n1", Cluster: "default"})
	if !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), `deregister service "web"`) {
		t.Errorf("%v", err)
	}
	if s.Service("web-1") == nil || s.Service("web-2") != nil {
		t.Error("the other service is still registered")
	}
}

// Some agents answer 500 to what they refuse.
func TestAServiceThatIsAnsweredWithAnErrorOfTheAgentKeepsNoOther(t *testing.T) {
	s := server(t)
	r := open(t, s, nil)
	old, bad, good := web(), web(), web()
	old.ID, old.Checks = "web-0", nil
	bad.ID, good.ID, good.Checks = "web-1", "web-2", nil
	synchronise(t, r, old)
	s.Fault = func(r *http.Request) int {
		if r.URL.Path == "/v1/agent/check/update/web-1-script" {
			return http.StatusInternalServerError
		}
		return 0
	}
	refusals := synchronise(t, r, bad, good)
	if len(refusals) != 1 || refusals[0].ID != "web-1" || !strings.Contains(refusals[0].Reason, "500") || refusals[0].Login {
		t.Errorf("refusals %+v; want that of the service which the agent does not take", refusals)
	}
	if s.Service("web-2") == nil {
		t.Error("the service after the one that fails is not registered")
	}
	if s.Service("web-0") != nil {
		t.Error("the service that is not offered any more is still registered")
	}
}

func TestAnAgentThatFailsAlwaysIsAway(t *testing.T) {
	s := server(t)
	r := open(t, s, nil)
	old, one, two := web(), web(), web()
	old.ID, two.ID = "web-0", "web-2"
	synchronise(t, r, old)
	s.Fault = func(r *http.Request) int {
		if r.URL.Path == "/v1/agent/service/register" {
			return http.StatusInternalServerError
		}
		return 0
	}
	got, err := r.Sync(t.Context(), registry.SyncRequest{Owner: "n1", Cluster: "default", Services: []registry.Registration{one, two}})
	if !errdefs.IsUnavailable(err) {
		t.Errorf("%+v, %v; want Unavailable, since no service is at fault", got, err)
	}
	if s.Service("web-0") != nil {
		t.Error("the service that is not offered any more is still registered")
	}
}

func TestTooManyRequestsAndChecksThatAreGoneAreNoRefusals(t *testing.T) {
	for code, path := range map[int]string{http.StatusTooManyRequests: "/v1/agent/service/register", http.StatusNotFound: "/v1/agent/check/update/web-1-script"} {
		s := server(t) // what is registered once is not registered again
		r := open(t, s, nil)
		s.Fault = func(r *http.Request) int {
			if r.URL.Path == path {
				return code
			}
			return 0
		}
		got, err := r.Sync(t.Context(), registry.SyncRequest{Owner: "n1", Cluster: "default", Services: []registry.Registration{web()}})
		if !errdefs.IsUnavailable(err) {
			t.Errorf("%d: %+v, %v; want Unavailable, which is tried again", code, got, err)
		}
	}
}
