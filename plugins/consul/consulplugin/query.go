// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consulplugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	consul "github.com/hashicorp/consul/api"

	"github.com/drover-project/drover/sdk/errdefs"
	registry "github.com/drover-project/drover/sdk/registry/v1"
)

// Query implements registry.Querier, with Consul's blocking queries.
func (r *Registry) Query(ctx context.Context, q registry.Query) (*registry.Answer, error) {
	c, err := r.cluster(q.Cluster)
	if err != nil {
		return nil, err
	}
	limit := c.timeout
	if q.Since > 0 {
		limit += q.Wait + q.Wait/16 // Consul adds up to a sixteenth
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	opts := c.options(ctx, q.Namespace, q.Partition)
	opts.Datacenter = q.Datacenter
	if q.Credential != nil {
		opts.Token = q.Credential.Secret
	}
	if q.Since > 0 {
		opts.WaitIndex, opts.WaitTime = q.Since, q.Wait
	}
	if q.MaxStale > 0 {
		opts.AllowStale = true
	}
	out, meta, err := c.ask(q, opts)
	if err != nil {
		if errdefs.ClassOf(err) == errdefs.InvalidArgument {
			return nil, err
		}
		return nil, withLogin(classified(ctx, fmt.Sprintf("ask the Consul agent at %s for %s %q", c.Address, q.Kind, q.Name), err), err)
	}
	if out.Index = 1; meta != nil {
		out.Index = max(meta.LastIndex, 1)
	}
	return out, nil
}

func (c *cluster) ask(q registry.Query, opts *consul.QueryOptions) (*registry.Answer, *consul.QueryMeta, error) {
	out := &registry.Answer{}
	switch q.Kind {
	case registry.QueryKey:
		pair, meta, err := c.api.KV().Get(q.Name, opts)
		if pair != nil {
			out.Found, out.Pairs = true, []registry.Pair{{Key: pair.Key, Value: pair.Value}}
		}
		return out, meta, err
	case registry.QueryKeys:
		pairs, meta, err := c.api.KV().List(q.Name, opts)
		for _, p := range pairs {
			out.Pairs = append(out.Pairs, registry.Pair{Key: p.Key, Value: p.Value})
		}
		return out, meta, err
	case registry.QueryService:
		entries, meta, err := c.api.Health().Service(q.Name, q.Tag, !q.Unhealthy, opts)
		for _, e := range entries {
			out.Instances = append(out.Instances, instance(e))
		}
		slices.SortFunc(out.Instances, func(a, b registry.Instance) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID)) })
		return out, meta, err
	case registry.QueryServices:
		all, meta, err := c.api.Catalog().Services(opts)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			out.Services = append(out.Services, registry.Summary{Name: name, Tags: slices.Sorted(slices.Values(all[name]))})
		}
		return out, meta, err
	}
	return nil, nil, errdefs.InvalidArgumentf("registry consul answers no queries of kind %q", q.Kind)
}

func instance(e *consul.ServiceEntry) registry.Instance {
	out := registry.Instance{
		ID: e.Service.ID, Name: e.Service.Service, Address: cmp.Or(e.Service.Address, e.Node.Address), Port: e.Service.Port, Tags: e.Service.Tags, Meta: e.Service.Meta,
		Node: e.Node.Node, NodeAddress: e.Node.Address, Datacenter: e.Node.Datacenter, Status: registry.StatusPassing,
	}
	switch e.Checks.AggregatedStatus() {
	case consul.HealthWarning:
		out.Status = registry.StatusWarning
	case consul.HealthCritical, consul.HealthMaint:
		out.Status = registry.StatusCritical
	}
	return out
}
