// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Services implements rpc.Servers. A node can read services on behalf of a job that it runs, in
// the namespace of that job, and for its DNS server (ADR 0084).
func (d *Dispatcher) Services(ctx context.Context, id rpc.Identity, q rpc.ServiceQuery) (rpc.ServiceAnswer, error) {
	if err := queryBounds.Check("ServiceQuery", q); err != nil {
		return rpc.ServiceAnswer{}, err
	}
	key := state.Key{Table: state.TableServices}
	if q.Name != "" {
		key.By, key.Value = state.ByService, state.JobKey(q.Namespace, q.Name)
	}
	return repeated(ctx, d, id, waitFor{key: key, since: q.Since, wait: q.Wait}, func() (rpc.ServiceAnswer, uint64, error) {
		answer, err := d.services(id, q)
		return answer, answer.Index, err
	})
}

func (d *Dispatcher) services(id rpc.Identity, q rpc.ServiceQuery) (rpc.ServiceAnswer, error) {
	view := d.cfg.Store.View()
	if _, err := d.known(view, id); err != nil {
		return rpc.ServiceAnswer{}, err
	}
	if q.Names && q.Name == "" {
		return rpc.ServiceAnswer{}, errdefs.InvalidArgumentf("the DNS server of a node asks for one service, and this question names none")
	}
	if !q.Names && !runs(view, id.NodeID, q.Namespace, q.JobID) {
		return rpc.ServiceAnswer{}, errdefs.PermissionDeniedf("node %q runs no alloc of job %q in namespace %q, so it reads no services for it", id.NodeID, q.JobID, q.Namespace)
	}
	if q.Name == "" {
		return listedServices(view, q.Namespace)
	}
	// A registration that is gone no longer contributes its index, but the index of the
	// last removal is at least as high.
	out := rpc.ServiceAnswer{Index: max(view.RemovalIndex(state.TableServices), 1), Instances: view.ServicesByName(q.Namespace, q.Name)}
	if len(out.Instances) > listMost {
		return rpc.ServiceAnswer{}, errdefs.ResourceExhaustedf("service %q has %d instances; a template or a DNS server can read %d", q.Name, len(out.Instances), listMost)
	}
	for _, r := range out.Instances {
		out.Index = max(out.Index, r.ModifyIndex)
	}
	return out, nil
}

func listedServices(view *state.View, namespace string) (rpc.ServiceAnswer, error) {
	tags := map[string]map[string]bool{}
	for r := range view.Services(namespace) {
		if tags[r.ServiceName] == nil {
			if len(tags) == listMost {
				return rpc.ServiceAnswer{}, errdefs.ResourceExhaustedf("namespace %q has more than %d services; a template can read no more: name those that it needs with nomadService", namespace, listMost)
			}
			tags[r.ServiceName] = map[string]bool{}
		}
		for _, t := range r.Tags {
			tags[r.ServiceName][t] = true
		}
	}
	out := rpc.ServiceAnswer{Index: max(view.TableIndex(state.TableServices), 1)}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		out.Services = append(out.Services, rpc.ServiceTags{Name: name, Tags: slices.Sorted(maps.Keys(tags[name]))})
	}
	return out, nil
}
