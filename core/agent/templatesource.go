// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// source is where templates get data that changes: the servers.
type source struct{ agent *Agent }

// scopeOf returns the scope of an alloc's templates: its namespace and job, neither of
// which contains a zero byte.
func scopeOf(namespace, jobID string) string { return namespace + "\x00" + jobID }

// Fetch implements template.Source.
func (s source) Fetch(ctx context.Context, q template.Query, opts template.FetchOptions) (template.Answer, error) {
	if q.Kind.OfRegistry() {
		return s.ofRegistry(ctx, q, opts)
	}
	namespace, jobID, _ := strings.Cut(q.Scope, "\x00")
	if q.Region != "" && q.Region != s.agent.cfg.Region {
		return template.Answer{}, errdefs.Unimplementedf("%s: this node is of region %q and cannot ask another one", q, s.agent.cfg.Region)
	}
	if q.Kind == template.KindService || q.Kind == template.KindServices {
		ask := rpc.ServiceQuery{Namespace: namespace, JobID: jobID, Name: q.Name, Since: opts.Since, Wait: opts.Wait}
		got, err := s.agent.cfg.Servers.Services(ctx, s.agent.session.Identity(), ask)
		if err != nil {
			return template.Answer{}, err
		}
		return servicesOf(got), nil
	}
	ask := rpc.VariableQuery{JobNamespace: namespace, JobID: jobID, Namespace: q.Namespace, Path: q.Name, Since: opts.Since, Wait: opts.Wait}
	if ask.Namespace == "" {
		ask.Namespace = namespace
	}
	ask.List = q.Kind == template.KindVariables
	got, err := s.agent.cfg.Servers.Variables(ctx, s.agent.session.Identity(), ask)
	if err != nil {
		return template.Answer{}, err
	}
	return answerOf(q.Kind, got), nil
}

func answerOf(kind template.Kind, got rpc.VariableAnswer) template.Answer {
	out := template.Answer{Index: got.Index}
	for _, v := range got.Variables {
		meta := template.VariableMeta{
			Namespace: v.Namespace, Path: v.Path, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex,
			CreateTime: time.Unix(0, v.CreateTime).UTC(), ModifyTime: time.Unix(0, v.ModifyTime).UTC(),
		}
		if kind == template.KindVariable {
			out.Found, out.Variable = true, template.Variable{Meta: meta, Items: v.Items}
		}
		out.Variables = append(out.Variables, meta)
	}
	return out
}

func servicesOf(got rpc.ServiceAnswer) template.Answer {
	out := template.Answer{Index: got.Index}
	for _, r := range got.Instances {
		if r == nil {
			continue
		}
		out.Service = append(out.Service, template.Service{
			ID: r.ID, Name: r.ServiceName, Namespace: r.Namespace, Datacenter: r.Datacenter, NodeID: r.NodeID, JobID: r.JobID, AllocID: r.AllocID,
			Address: r.Address, Port: r.Port, Tags: slices.Sorted(slices.Values(r.Tags)), Meta: r.Meta, CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex,
		})
	}
	slices.SortFunc(out.Service, func(a, b template.Service) int { return strings.Compare(a.ID, b.ID) })
	for _, s := range got.Services {
		out.Services = append(out.Services, template.ServiceSummary{Name: s.Name, Tags: s.Tags})
	}
	return out
}

// consulRegistry is the registry from which templates read.
const consulRegistry = "consul"

// registryKinds are the queries of registries.
var registryKinds = map[template.Kind]registry.Query{
	template.KindKey: {Kind: registry.QueryKey}, template.KindKeys: {Kind: registry.QueryKeys},
	template.KindConsulService: {Kind: registry.QueryService}, template.KindConsulServices: {Kind: registry.QueryServices},
}

// queryAs asks with the rights of the query's task, or of the node if there is none.
func (s source) queryAs(ctx context.Context, q template.Query, ask registry.Query) (*registry.Answer, error) {
	if q.As == "" {
		return s.agent.plugins.QueryRegistry(ctx, consulRegistry, ask)
	}
	l, err := s.agent.loginOf(q.As)
	if err != nil {
		return nil, err
	}
	c, err := s.agent.logins.Get(ctx, l)
	if err != nil {
		return nil, err
	}
	ask.Credential = &c
	got, err := s.agent.plugins.QueryRegistry(ctx, consulRegistry, ask)
	if err != nil && errdefs.ReasonOf(err) == registry.ReasonLogin {
		if ferr := s.agent.logins.Forget(ctx, l.Place, l.ID, c); ferr != nil {
			return nil, ferr
		}
		return nil, errdefs.Unavailablef("the task logs in again: %w", err)
	}
	return got, err
}

// ofRegistry asks a registry outside of the cluster.
func (s source) ofRegistry(ctx context.Context, q template.Query, opts template.FetchOptions) (template.Answer, error) {
	ask := registryKinds[q.Kind]
	ask.Cluster, ask.Name, ask.Namespace, ask.Partition = cmp.Or(q.Cluster, registry.DefaultCluster), q.Name, q.Namespace, q.Partition
	ask.Datacenter, ask.Tag, ask.Unhealthy, ask.Since, ask.Wait, ask.MaxStale = q.Datacenter, q.Tag, q.Unhealthy, opts.Since, opts.Wait, opts.MaxStale
	got, err := s.queryAs(ctx, q, ask)
	if err != nil {
		return template.Answer{}, err
	}
	out := template.Answer{Index: got.Index, Found: got.Found}
	for _, p := range got.Pairs {
		out.Keys = append(out.Keys, template.KeyPair{Path: p.Key, Key: p.Key, Value: string(p.Value)})
	}
	for _, i := range got.Instances {
		out.Instances = append(out.Instances, template.HealthService{
			ID: i.ID, Name: i.Name, Address: i.Address, Port: i.Port, Tags: slices.Sorted(slices.Values(i.Tags)), ServiceMeta: i.Meta,
			Node: i.Node, NodeAddress: i.NodeAddress, NodeDatacenter: i.Datacenter, Status: string(i.Status),
		})
	}
	for _, x := range got.Services {
		out.Services = append(out.Services, template.ServiceSummary{Name: x.Name, Tags: x.Tags})
	}
	return out, nil
}
