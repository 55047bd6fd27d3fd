// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package services

import (
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/taskenv"
)

// ProviderConsul is the provider of services that name none.
const ProviderConsul = "consul"

// defaultCluster is the cluster of services that name none.
const defaultCluster = "default"

// Offer is a service that an alloc offers and that a registry outside of the cluster is to
// know.
type Offer struct {
	ID       string
	Key      string // see Key
	Task     string // that offers it; "" if the group does
	Provider string
	Cluster  string
	// Namespace and Partition are parts of the registry; "" means the configured ones.
	Namespace, Partition string
	// Service is the service with its ${...} replaced; Tags and Meta are those of a canary if
	// the alloc is one. Its checks are as in the job.
	Service *model.Service
	At      Endpoint
	Tagged  map[string]string // tagged addresses
}

// Offers returns what an alloc offers while it runs, as Registrations does for services of
// provider nomad, and the services that have no address.
func Offers(in Input) (out []Offer, missing []Missing) {
	if !May(in.Alloc) || in.Job == nil {
		return nil, nil
	}
	tg := in.Job.LookupTaskGroup(in.Alloc.TaskGroup)
	if tg == nil {
		return nil, nil
	}
	add := func(owner string, task *model.Task, list []*model.Service) {
		for _, s := range list {
			if s == nil || s.Provider == ProviderNomad {
				continue
			}
			o, err := in.offer(owner, tg, task, s)
			if err != nil {
				missing = append(missing, Missing{Task: o.Task, Err: err})
				continue
			}
			if !slices.ContainsFunc(out, func(x Offer) bool { return x.ID == o.ID }) {
				out = append(out, o)
			}
		}
	}
	add("group-"+tg.Name, nil, tg.Services)
	for _, t := range tg.Tasks {
		if t != nil && len(t.Services) > 0 && serves(in.Alloc.TaskStates[t.Name]) {
			add(t.Name, t, t.Services)
		}
	}
	return out, missing
}

func (in Input) offer(owner string, tg *model.TaskGroup, task *model.Task, s *model.Service) (Offer, error) {
	o := Offer{Key: Key(task, s), Provider: s.Provider, Cluster: s.Cluster}
	if o.Provider == "" {
		o.Provider = ProviderConsul
	}
	own := tg.Consul
	if task != nil {
		o.Task = task.Name
		if task.Consul != nil {
			own = task.Consul
		}
	}
	if own != nil && o.Provider == ProviderConsul { // the block is about Consul
		o.Namespace, o.Partition = own.Namespace, own.Partition
		if o.Cluster == "" || o.Cluster == defaultCluster {
			o.Cluster = own.Cluster
		}
	}
	if o.Cluster == "" {
		o.Cluster = defaultCluster
	}
	o.Service = in.outside(task, s)
	at, err := placeOf(in.Alloc, o.Service, task, in.Node).EndpointOf(o.Service)
	if err != nil {
		return o, err
	}
	o.At, o.Tagged = at, o.Service.TaggedAddresses
	o.ID = "_nomad-task-" + in.Alloc.ID + "-" + owner + "-" + o.Service.Name + "-" + o.Service.PortLabel
	return o, nil
}

// outside returns the service as a registry outside of the cluster knows it.
func (in Input) outside(task *model.Task, s *model.Service) *model.Service {
	c := *s
	if in.Alloc.DeploymentStatus.IsCanary() {
		if len(s.CanaryTags) > 0 {
			c.Tags = s.CanaryTags
		}
		if len(s.CanaryMeta) > 0 {
			c.Meta = s.CanaryMeta
		}
	}
	if !refers(&c) && !refersIn(c.TaggedAddresses) {
		return &c
	}
	env := in.environment(task)
	out := interpolated(&c, env)
	out.TaggedAddresses = replaced(c.TaggedAddresses, env)
	return out
}

func refersIn(all map[string]string) bool {
	for k, v := range all {
		if strings.Contains(k, "${") || strings.Contains(v, "${") {
			return true
		}
	}
	return false
}

func replaced(all map[string]string, env *taskenv.Env) map[string]string {
	if !refersIn(all) {
		return maps.Clone(all)
	}
	out := make(map[string]string, len(all))
	for k, v := range all {
		out[env.Replace(k)] = env.Replace(v)
	}
	return out
}
