// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registrycheck

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/errdefs"
	registry "github.com/drover-project/drover/sdk/registry/v1"
)

var checks = []Check{
	{"info", "info is complete, always the same, and its schema is sound", checkInfo},
	{"config-again", "the same config may be set again at any time", checkConfigAgain},
	{"fingerprint", "the first fingerprint comes at once, others when something changes, and the stream ends with its context and not before", checkFingerprint},
	{"unknown-cluster", "a cluster that there is not is not found", checkUnknown},
	{"sync", "a cluster has what was synchronised last and nothing else of the owner, however often it is repeated", checkSync},
	{"owners", "the services of another owner stay", checkOwners},
	{"fresh-process", "another process removes what the first, which was killed, has registered", checkDeath},
	{"refusal", "a service that cannot be registered is refused by its id, and the others are registered", checkRefusal},
	{"login", "a token of nobody is refused, and the end of an unknown credential is no error", checkLogin},
	{"query-kinds", "a query of an unknown kind is refused", checkKinds},
}

func checkInfo(b *bench) {
	info := b.r.Info()
	conformance.CheckInfo(b.t, info.Name, info.ConfigSchema, info, b.r.Info())
}

func checkConfigAgain(b *bench) {
	if err := b.r.SetConfig(b.ctx, b.config); err != nil {
		b.t.Errorf("SetConfig a second time: %v", err)
	}
}

func checkFingerprint(b *bench) {
	f := b.print()
	if !slices.IsSortedFunc(f.Clusters, func(a, c registry.Cluster) int { return cmp.Compare(a.Name, c.Name) }) || slices.ContainsFunc(f.Clusters, func(c registry.Cluster) bool { return c.Name == "" }) {
		b.t.Errorf("the clusters %+v are not in order, or one has no name", f.Clusters)
	}
	name := b.r.Info().Name
	for _, c := range f.Clusters {
		version := name + "." + c.Name + ".version"
		if c.Name == registry.DefaultCluster {
			version = name + ".version"
		}
		if c.Healthy && c.Attributes[version] == "" {
			b.t.Errorf("cluster %q is healthy and has no attribute %s, so no job is placed that names it", c.Name, version)
		}
		for k := range c.Attributes {
			if !strings.HasPrefix(k, name+".") && !strings.HasPrefix(k, "unique."+name+".") {
				b.t.Errorf("the attribute %q of cluster %q does not begin with %s. or unique.%s.", k, c.Name, name, name)
			}
		}
	}
	conformance.CheckFingerprints(b.t, b.r.Fingerprint, false)
}

// service is the n-th of some services.
func service(n int) registry.Registration {
	return registry.Registration{
		ID: fmt.Sprintf("drover-check-%d", n), Name: fmt.Sprintf("drover-check-%d", n), Address: "192.0.2.1", Port: 8000 + n, Tags: []string{"check"},
		Checks: []registry.Check{{
			ID: fmt.Sprintf("drover-check-%d-alive", n), Name: "alive", Type: registry.CheckReport, InitialStatus: registry.StatusPassing,
			Report: &registry.Report{Status: registry.StatusPassing, Output: "alive", TTL: time.Minute},
		}},
	}
}

const owner = "drover-check"

// sync makes the cluster have the services, and returns what it refuses.
func (b *bench) sync(cluster, of string, services ...registry.Registration) []registry.Refusal {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), time.Minute) // also when the check has failed
	defer cancel()
	result, err := b.r.Sync(ctx, registry.SyncRequest{Owner: of, Cluster: cluster, Services: services})
	if err != nil {
		b.t.Fatalf("Sync of %d services of %s: %v", len(services), of, err)
	}
	return result.Refusals
}

// expect compares the ports of a service with what the cluster says, if it can be asked.
func (b *bench) expect(cluster string, n int, want ...int) {
	q, ok := b.r.(registry.Querier)
	if !ok || !registry.Has(b.r, registry.FeatureQuery) {
		return
	}
	var got []int
	for end := time.Now().Add(cmp.Or(b.subject.Settle, 10*time.Second)); ; { // clusters learn of changes a little later
		a, err := q.Query(b.ctx, registry.Query{Cluster: cluster, Kind: registry.QueryService, Name: service(n).Name})
		if err != nil {
			b.t.Fatalf("Query: %v", err)
		}
		got = nil
		for _, i := range a.Instances {
			got = append(got, i.Port)
		}
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("the cluster has service %d at the ports %v, want %v", n, got, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func checkUnknown(b *bench) {
	if _, err := b.r.Sync(b.ctx, registry.SyncRequest{Owner: owner, Cluster: "no-such-cluster"}); !errdefs.IsNotFound(err) {
		b.t.Errorf("Sync: %v, want NotFound", err)
	}
}

func checkSync(b *bench) {
	c := b.cluster()
	defer b.sync(c, owner)
	for range 2 {
		if refused := b.sync(c, owner, service(1), service(2)); len(refused) > 0 {
			b.t.Fatalf("refused: %+v", refused)
		}
		b.expect(c, 1, 8001)
		b.expect(c, 2, 8002)
	}
	moved := service(1)
	moved.Port = 9000
	b.sync(c, owner, moved)
	b.expect(c, 1, 9000)
	b.expect(c, 2)
	b.sync(c, owner)
	b.expect(c, 1)
}

func checkOwners(b *bench) {
	c := b.cluster()
	defer b.sync(c, owner)
	defer b.sync(c, owner+"-other")
	b.sync(c, owner, service(1))
	b.sync(c, owner+"-other", service(2))
	b.sync(c, owner)
	b.expect(c, 1)
	b.expect(c, 2, 8002)
}

func checkDeath(b *bench) {
	c := b.cluster()
	b.sync(c, owner, service(1))
	b.die()
	b.open()
	defer b.sync(c, owner)
	b.expect(c, 1, 8001)
	b.sync(c, owner, service(2))
	b.expect(c, 1)
	b.expect(c, 2, 8002)
}

func checkRefusal(b *bench) {
	c := b.cluster()
	defer b.sync(c, owner)
	nameless := service(1)
	nameless.Name = ""
	if refused := b.sync(c, owner, nameless, service(2)); len(refused) != 1 || refused[0].ID != nameless.ID || refused[0].Reason == "" {
		b.t.Errorf("a service without a name: refused is %+v", refused)
	}
	b.expect(c, 2, 8002)
}

func checkLogin(b *bench) {
	a, ok := b.r.(registry.Authenticator)
	if !ok || !registry.Has(b.r, registry.FeatureLogin) {
		b.t.Skipf("the registry knows no logins")
	}
	c := b.cluster()
	for _, kind := range []registry.LoginFor{registry.ForService, registry.ForTask} {
		if l, err := a.Login(b.ctx, registry.LoginRequest{Cluster: c, For: kind, Token: "no token of anybody"}); !errdefs.IsPermissionDenied(err) {
			b.t.Errorf("a login for a %s with a token of nobody: %+v, %v, want PermissionDenied", kind, l, err)
		}
	}
	if _, err := a.Login(b.ctx, registry.LoginRequest{Cluster: "no-such-cluster", For: registry.ForTask, Token: "x"}); !errdefs.IsNotFound(err) {
		b.t.Errorf("a login at a cluster that there is not: %v, want NotFound", err)
	}
	if err := a.Logout(b.ctx, c, registry.Credential{ID: "nobody", Secret: "nobody"}); err != nil {
		b.t.Errorf("Logout of an unknown credential: %v", err)
	}
}

func checkKinds(b *bench) {
	q, ok := b.r.(registry.Querier)
	if !ok || !registry.Has(b.r, registry.FeatureQuery) {
		b.t.Skipf("the registry answers no queries")
	}
	if _, err := q.Query(b.ctx, registry.Query{Cluster: b.cluster(), Kind: "no such kind"}); !errdefs.IsInvalidArgument(err) {
		b.t.Errorf("a query of an unknown kind: %v, want InvalidArgument", err)
	}
}
