// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package fileregistry is an example of a registry: its only cluster is a file, which has
// the registered services of all owners. Tests of hosts use it too.
package fileregistry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
	registry "github.com/drover-project/drover/sdk/registry/v1"
)

// Registry keeps services in a file.
type Registry struct {
	name, path string
	mu         sync.Mutex
}

var _ registry.Querier = (*Registry)(nil)

// New returns a registry with a name whose cluster is the file at path.
func New(name, path string) *Registry { return &Registry{name: name, path: path} }

// Info implements registry.Registry.
func (r *Registry) Info() registry.Info { return registry.Info{Name: r.name} }

// SetConfig implements registry.Registry.
func (r *Registry) SetConfig(context.Context, []byte) error { return nil }

// Fingerprint implements registry.Registry.
func (r *Registry) Fingerprint(ctx context.Context) (<-chan registry.Fingerprint, error) {
	out := make(chan registry.Fingerprint, 1)
	out <- registry.Fingerprint{Clusters: []registry.Cluster{{
		Name: registry.DefaultCluster, Healthy: true, Attributes: map[string]string{r.name + ".version": "1.0.0"},
	}}}
	context.AfterFunc(ctx, func() { close(out) })
	return out, nil
}

// content is the file: services by their owners.
type content struct {
	Index  uint64
	Owners map[string][]registry.Registration
}

func (r *Registry) read() (content, error) {
	out := content{Index: 1, Owners: map[string][]registry.Registration{}}
	body, err := os.ReadFile(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return out, nil
	case err != nil:
		return out, errdefs.Unavailablef("read the registered services: %w", err)
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, errdefs.FailedPreconditionf("the file %s with the registered services is damaged; remove it: %w", r.path, err)
	}
	return out, nil
}

// Sync implements registry.Registry.
func (r *Registry) Sync(_ context.Context, req registry.SyncRequest) (*registry.SyncResult, error) {
	if req.Cluster != registry.DefaultCluster {
		return nil, errdefs.NotFoundf("there is no cluster %q; use %q", req.Cluster, registry.DefaultCluster)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := r.read()
	if err != nil {
		return nil, err
	}
	out := &registry.SyncResult{}
	var kept []registry.Registration
	for _, s := range req.Services {
		if s.ID == "" || s.Name == "" {
			out.Refusals = append(out.Refusals, registry.Refusal{ID: s.ID, Reason: "it has no id or no name"})
			continue
		}
		kept = append(kept, s)
	}
	if now.Owners[req.Owner] = kept; len(kept) == 0 {
		delete(now.Owners, req.Owner)
	}
	now.Index++
	body, err := json.Marshal(now)
	if err != nil {
		return nil, errdefs.Internalf("encode the services: %w", err)
	}
	if err := os.WriteFile(r.path, body, 0o600); err != nil {
		return nil, fmt.Errorf("write the services: %w", err)
	}
	return out, nil
}

// Query implements registry.Querier. It waits for nothing.
func (r *Registry) Query(_ context.Context, q registry.Query) (*registry.Answer, error) {
	if q.Cluster != registry.DefaultCluster {
		return nil, errdefs.NotFoundf("there is no cluster %q; use %q", q.Cluster, registry.DefaultCluster)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := r.read()
	if err != nil {
		return nil, err
	}
	out := &registry.Answer{Index: now.Index}
	switch q.Kind {
	case registry.QueryKey, registry.QueryKeys: // it has none
	case registry.QueryService:
		for _, services := range now.Owners {
			for _, s := range services {
				if s.Name == q.Name && (q.Tag == "" || slices.Contains(s.Tags, q.Tag)) {
					out.Instances = append(out.Instances, registry.Instance{ID: s.ID, Name: s.Name, Address: s.Address, Port: s.Port, Tags: s.Tags, Meta: s.Meta, Status: registry.StatusPassing})
				}
			}
		}
		slices.SortFunc(out.Instances, func(a, b registry.Instance) int { return cmp.Compare(a.ID, b.ID) })
	case registry.QueryServices:
		for _, services := range now.Owners {
			for _, s := range services {
				out.Services = append(out.Services, registry.Summary{Name: s.Name, Tags: s.Tags})
			}
		}
		slices.SortFunc(out.Services, func(a, b registry.Summary) int { return cmp.Compare(a.Name, b.Name) })
		out.Services = slices.CompactFunc(out.Services, func(a, b registry.Summary) bool { return a.Name == b.Name })
	default:
		return nil, errdefs.InvalidArgumentf("there are no queries of kind %q", q.Kind)
	}
	return out, nil
}
