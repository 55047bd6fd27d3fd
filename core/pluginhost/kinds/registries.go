// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/core/pluginhost/breaker"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// RegistryFingerprint is what one registry reaches. Problem says why there are no clusters,
// or that the plugin is away: what is registered stays.
type RegistryFingerprint struct {
	Name          string
	Plugin        string
	PluginVersion string
	Clusters      []registry.Cluster
	Problem       string
}

// registryLimit bounds one Sync, and queryGrace is how much longer than its wait a query may
// take.
const (
	registryLimit = time.Minute
	queryGrace    = 20 * time.Second
)

// Registries holds all registries of services. One without a config needs no process.
type Registries struct {
	kind[*registryBackend, registry.Fingerprint, *registrySlot]
	cfg Config
}

// registryBackend is a registry of one process.
type registryBackend struct {
	registry.Backend
	breakers *breaker.Group // by cluster
	calls    sync.WaitGroup // Syncs in progress
	// dormant says that it has no config, and so no clusters.
	dormant atomic.Bool
}

// registrySlot is the slot of one registry.
type registrySlot struct {
	plain[*registryBackend, registry.Fingerprint]
	name    string
	backend *registryBackend // nil while no process serves it
	dormant bool
	refused error // why it registers nothing any more
	print   RegistryFingerprint
}

func newRegistries(cfg Config) *Registries {
	r := &Registries{cfg: cfg}
	r.kind = newKind(cfg, spec[*registryBackend, registry.Fingerprint, *registrySlot]{
		noun: "registry", contracts: []plugin.Kind{registry.KindV1},
		connect: r.dial,
		about: func(b *registryBackend) (string, schema.Schema) {
			info := b.Info()
			return info.Name, info.ConfigSchema
		},
		check: func(b *registryBackend) error {
			if b.Info().Name == "" {
				return errdefs.FailedPreconditionf("serves a registry without a name; the plugin is defective")
			}
			return nil
		},
		dormant: func(b *registryBackend, config map[string]any) bool {
			needs := slices.ContainsFunc(b.Info().ConfigSchema.Attributes, func(a schema.Attribute) bool { return a.Required })
			b.dormant.Store(config == nil && needs)
			return b.dormant.Load()
		},
		slot: func(b *registryBackend, _ string) *registrySlot { return &registrySlot{name: b.Info().Name} },
		fingerprint: func(b *registryBackend, ctx context.Context) (<-chan registry.Fingerprint, error) {
			return b.Fingerprint(ctx)
		},
		present: func(registry.Fingerprint) bool { return true },
		show: func(into *Served, all []*registryBackend) {
			for _, b := range all {
				into.Registries = append(into.Registries, b.Backend)
			}
		},
	})
	return r
}

func (r *Registries) dial(ctx context.Context, p *process.Process) (out []*registryBackend, err error) {
	all, err := registry.ConnectV1(ctx, p.Conn)
	for _, b := range all {
		name := func(cluster string) string { return fmt.Sprintf("cluster %q of registry %q", cluster, b.Info().Name) }
		out = append(out, &registryBackend{Backend: b, breakers: breaker.NewGroup(name, r.cfg.Limits.Breaker, r.cfg.Answering)})
	}
	return out, err
}

// Fingerprints returns the newest fingerprint of every registry that has a config, by name,
// and a channel that is closed when they have changed.
func (r *Registries) Fingerprints() ([]RegistryFingerprint, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]RegistryFingerprint, 0, len(r.byName))
	for _, s := range r.slots() {
		p := s.print
		if p.Name == "" || s.dormant {
			continue // the former is a version that is being tried
		}
		if s.refused != nil {
			p.Clusters, p.Problem = nil, s.refused.Error()
		}
		out = append(out, p)
	}
	return out, r.changed
}

// Sync makes a cluster of a registry have exactly the services of the request. NotFound: no
// plugin serves the registry, or it has no such cluster. Unavailable: its plugin, or the
// cluster, is away.
func (r *Registries) Sync(ctx context.Context, name string, req registry.SyncRequest) (out *registry.SyncResult, err error) {
	b, err := r.backend(name, true)
	if err != nil {
		return nil, err
	}
	defer b.calls.Done()
	err = b.breakers.Of(req.Cluster).Do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, registryLimit)
		defer cancel()
		out, err = b.Sync(ctx, req)
		return err
	})
	if err != nil {
		return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("register services in cluster %q of %s: %w", req.Cluster, name, err))
	}
	return out, nil
}

// Query reads from a cluster of a registry; it fails as Sync does. Unimplemented: the
// registry answers no queries.
func (r *Registries) Query(ctx context.Context, name string, q registry.Query) (*registry.Answer, error) {
	b, err := r.backend(name, false)
	if err != nil {
		return nil, err
	}
	querier, ok := b.Backend.(registry.Querier)
	if !ok || !registry.HasQueries(b.Backend) {
		return nil, errdefs.Unimplementedf("registry %q answers no queries", name)
	}
	ctx, cancel := context.WithTimeout(ctx, q.Wait+queryGrace)
	defer cancel()
	a, err := querier.Query(ctx, q) // it waits, so it says nothing about whether the plugin answers
	if err != nil {
		return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("query cluster %q of %s: %w", q.Cluster, name, err))
	}
	return a, nil
}

// Login returns a credential of a workload for a cluster of a registry; it fails as Sync
// does. Unimplemented: the registry knows no logins.
func (r *Registries) Login(ctx context.Context, name string, req registry.LoginRequest) (out *registry.Login, err error) {
	err = r.authenticate(ctx, name, req.Cluster, func(ctx context.Context, a registry.Authenticator) error {
		out, err = a.Login(ctx, req)
		return err
	})
	if err != nil {
		return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("log in at cluster %q of %s: %w", req.Cluster, name, err))
	}
	return out, nil
}

// Logout ends a credential; it fails as Login does.
func (r *Registries) Logout(ctx context.Context, name, cluster string, c registry.Credential) error {
	err := r.authenticate(ctx, name, cluster, func(ctx context.Context, a registry.Authenticator) error { return a.Logout(ctx, cluster, c) })
	if err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("log out of cluster %q of %s: %w", cluster, name, err))
	}
	return nil
}

func (r *Registries) authenticate(ctx context.Context, name, cluster string, do func(context.Context, registry.Authenticator) error) error {
	b, err := r.backend(name, true)
	if err != nil {
		return err
	}
	defer b.calls.Done()
	a, ok := b.Backend.(registry.Authenticator)
	if !ok || !registry.HasLogins(b.Backend) {
		return errdefs.Unimplementedf("registry %q knows no logins of workloads; use a newer version of its plugin", name)
	}
	return b.breakers.Of(cluster).Do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, registryLimit)
		defer cancel()
		return do(ctx, a)
	})
}

// backend returns the process that serves a registry. With counted, the call counts as in
// progress.
func (r *Registries) backend(name string, counted bool) (*registryBackend, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byName[name]
	switch {
	case e == nil || e.slot.print.Name == "":
		return nil, errdefs.NotFoundf("no plugin serves registry %q on this node; add a block %s to the agent's configuration, and install the plugin if it is missing", name, name)
	case e.slot.dormant:
		return nil, errdefs.NotFoundf("registry %q has no config on this node; add a block %s to the agent's configuration", name, name)
	case e.slot.refused != nil:
		return nil, errdefs.Unavailablef("registry %q: %w", name, e.slot.refused)
	case e.slot.backend == nil:
		return nil, errdefs.Unavailablef("registry %q is away: %s", name, e.slot.print.Problem)
	}
	if counted {
		e.slot.backend.calls.Add(1)
	}
	return e.slot.backend, nil
}

func (s *registrySlot) serves(b *registryBackend, from origin, problem error) {
	s.print.Name, s.print.Plugin, s.print.PluginVersion = s.name, from.plugin, from.version
	s.backend, s.dormant = b, b.dormant.Load()
	if problem != nil {
		s.print.Clusters, s.print.Problem = nil, problem.Error()
	}
}

func (s *registrySlot) lost(b *registryBackend, reason error) {
	if s.backend == b {
		s.backend = nil
	}
	if !quiet(reason) { // the clusters stay as they were: what is registered in them does, too
		s.print.Problem = reason.Error()
	}
}

func (s *registrySlot) drained(ctx context.Context, b *registryBackend) error {
	return ended(ctx, &b.calls, "services are still being registered by the old process")
}

func (s *registrySlot) idle(*registryBackend, time.Time, time.Duration) (idle, onDemand bool) {
	return s.dormant, s.dormant
}

func (s *registrySlot) take(f registry.Fingerprint) {
	s.print.Clusters, s.print.Problem = soundClusters(s.name, f)
}

func (s *registrySlot) trouble(err error) {
	s.print.Problem = fmt.Sprintf("cannot be fingerprinted: %v", err)
}

func (s *registrySlot) worse(f registry.Fingerprint) error {
	for _, c := range f.Clusters {
		was := slices.ContainsFunc(s.print.Clusters, func(o registry.Cluster) bool { return o.Name == c.Name && o.Healthy })
		if was && !c.Healthy {
			return errdefs.FailedPreconditionf("the version that runs reaches cluster %q and the new one does not: %s", c.Name, c.Problem)
		}
	}
	return nil
}

func (s *registrySlot) refuse(reason error) { s.refused = reason }

func (s *registrySlot) unanswering() (since time.Time, why error) {
	if s.backend == nil {
		return time.Time{}, nil
	}
	return s.backend.breakers.Open()
}

func (s *registrySlot) release() (kept bool) {
	s.backend = nil
	return false
}

func (s *registrySlot) close() {}

// soundClusters removes everything from a fingerprint that servers cannot store or use, such
// as attributes that do not belong to the registry.
func soundClusters(name string, f registry.Fingerprint) ([]registry.Cluster, string) {
	size := 0
	for i := range f.Clusters {
		c := &f.Clusters[i]
		size += len(c.Name) + len(c.Problem)
		maps.DeleteFunc(c.Attributes, func(k, _ string) bool {
			return !fits(k) || !strings.HasPrefix(k, name+".") && !strings.HasPrefix(k, "unique."+name+".")
		})
		for k, v := range c.Attributes {
			size += len(k) + len(v)
		}
	}
	if size > maxPrintBytes {
		return nil, fmt.Sprintf("the plugin's fingerprint has %d clusters and %d bytes, more than an agent takes; the plugin is defective", len(f.Clusters), size)
	}
	return f.Clusters, ""
}
