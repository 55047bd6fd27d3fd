// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consulplugin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	consul "github.com/hashicorp/consul/api"

	registry "github.com/drover-project/drover/sdk/registry/v1"
)

// The metadata by which services are known again. The source is the reference's, by which
// other programs find the services of both.
const (
	metaOwner  = "drover-node-id"
	metaForm   = "drover-form" // changes with everything that is registered
	metaSource = "external-source"
	source     = "nomad"
)

// options are the options of a request.
func (c *cluster) options(ctx context.Context, namespace, partition string) *consul.QueryOptions {
	return (&consul.QueryOptions{Namespace: cmp.Or(namespace, c.Namespace), Partition: cmp.Or(partition, c.Partition)}).WithContext(ctx)
}

// within bounds one request.
func (c *cluster) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return do(ctx)
}

// Sync implements registry.Registry.
func (r *Registry) Sync(ctx context.Context, req registry.SyncRequest) (*registry.SyncResult, error) {
	c, err := r.cluster(req.Cluster)
	if err != nil {
		return nil, err
	}
	has, checks, err := c.registered(ctx, req)
	if err != nil {
		return nil, classified(ctx, fmt.Sprintf("list the services of the Consul agent at %s", c.Address), err)
	}
	out, err := c.keepAll(ctx, req, has, checks)
	if err != nil && !concernsOne(err) {
		return nil, err
	}
	if gone := c.removeOthers(ctx, req, has); gone != nil && (err == nil || !concernsOne(gone)) {
		err = gone
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// keepAll registers the services of a request. An error with which the agent answers about one
// of them does not keep it from the others.
func (c *cluster) keepAll(ctx context.Context, req registry.SyncRequest, has map[string]*consul.AgentService, checks map[string]map[string]bool) (*registry.SyncResult, error) {
	out := &registry.SyncResult{}
	answered := false // one at least got another answer than an error of the agent's own
	var later, broken error
	for _, s := range req.Services {
		err := c.keep(ctx, req.Owner, s, req.Credentials[s.ID], has[s.ID], checks)
		if refused(err) || failing(err) {
			out.Refusals = append(out.Refusals, registry.Refusal{ID: s.ID, Reason: fmt.Sprintf("service %q: %v", s.Name, err), Login: unknownToken(err)})
		}
		answered = answered || !failing(err)
		err = classified(ctx, fmt.Sprintf("register service %q", s.Name), err)
		switch {
		case err == nil, refused(err):
		case failing(err):
			broken = cmp.Or(broken, err)
		case concernsOne(err):
			later = cmp.Or(later, err)
		default:
			return nil, err
		}
	}
	if !answered {
		later = cmp.Or(later, broken) // the agent is at fault, and not a service
	}
	return out, later
}

// removeOthers deregisters what the owner offers no more.
func (c *cluster) removeOthers(ctx context.Context, req registry.SyncRequest, has map[string]*consul.AgentService) (first error) {
	wanted := map[string]bool{}
	for _, s := range req.Services {
		wanted[s.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(has)) {
		if s := has[id]; !wanted[id] && s.Meta[metaOwner] == req.Owner {
			err := classified(ctx, fmt.Sprintf("deregister service %q", s.Service), c.remove(ctx, id, s, req.Credentials[id]))
			if err != nil && !concernsOne(err) {
				return err
			}
			first = cmp.Or(first, err)
		}
	}
	return first
}

// remove deregisters a service, with the credential with which it was registered while that
// is valid, and otherwise with the node's.
func (c *cluster) remove(ctx context.Context, id string, s *consul.AgentService, cred registry.Credential) error {
	secrets := []string{""}
	if cred.Secret != "" {
		secrets = []string{cred.Secret, ""}
	}
	var err error
	for _, secret := range secrets {
		err = c.within(ctx, func(ctx context.Context) error {
			opts := c.options(ctx, s.Namespace, s.Partition)
			opts.Token = secret
			return c.api.Agent().ServiceDeregisterOpts(id, opts)
		})
		var status consul.StatusError
		switch {
		case !errors.As(err, &status), status.Code != http.StatusForbidden && status.Code != http.StatusUnauthorized && status.Code != http.StatusNotFound:
			return err
		case status.Code == http.StatusNotFound:
			return nil
		}
	}
	return err
}

// registered returns what the agent has: services by id, and the ids of their checks.
func (c *cluster) registered(ctx context.Context, req registry.SyncRequest) (map[string]*consul.AgentService, map[string]map[string]bool, error) {
	services, checks := map[string]*consul.AgentService{}, map[string]map[string]bool{}
	for _, at := range c.namespaces(ctx, req) {
		err := c.within(ctx, func(ctx context.Context) error {
			opts := c.options(ctx, at, "")
			some, err := c.api.Agent().ServicesWithFilterOpts("", opts)
			if err != nil {
				return err
			}
			maps.Copy(services, some)
			all, err := c.api.Agent().ChecksWithFilterOpts("", opts)
			for _, x := range all {
				if checks[x.ServiceID] == nil {
					checks[x.ServiceID] = map[string]bool{}
				}
				checks[x.ServiceID][x.CheckID] = true
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return services, checks, nil
}

// namespaces returns the namespaces in which the owner may have services: all of them where
// Consul has namespaces, which it says with the agent's other properties.
func (c *cluster) namespaces(ctx context.Context, req registry.SyncRequest) []string {
	needed := c.Namespace != ""
	for _, s := range req.Services {
		needed = needed || s.Namespace != ""
	}
	if self, err := c.self(ctx); err == nil && c.enterprise(self) {
		return []string{"*"}
	}
	if needed {
		return []string{c.Namespace}
	}
	return []string{""}
}

// keep registers a service unless the agent has it as it is wanted, and passes the results of
// checks that the node runs.
func (c *cluster) keep(ctx context.Context, owner string, s registry.Registration, cred registry.Credential, has *consul.AgentService, checks map[string]map[string]bool) error {
	want := c.registration(owner, s, cred.ID)
	same := has != nil && has.Meta[metaForm] == want.Meta[metaForm] && has.Meta[metaOwner] == owner
	for _, x := range s.Checks { // Consul may have one more, of its maintenance mode
		same = same && checks[s.ID][x.ID]
	}
	if !same {
		if s.EnableTagOverride && has != nil && has.Meta[metaOwner] == owner {
			want.Tags = has.Tags
		}
		err := c.within(ctx, func(ctx context.Context) error {
			return c.api.Agent().ServiceRegisterOpts(want, consul.ServiceRegisterOpts{ReplaceExistingChecks: true, Token: cred.Secret}.WithContext(ctx))
		})
		if err != nil {
			return err
		}
	}
	for _, x := range s.Checks {
		if x.Report == nil {
			continue
		}
		err := c.within(ctx, func(ctx context.Context) error {
			opts := c.options(ctx, s.Namespace, s.Partition)
			opts.Token = cred.Secret
			return c.api.Agent().UpdateTTLOpts(x.ID, x.Report.Output, string(x.Report.Status), opts)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// registration returns a service in the words of Consul. A service with another credential has
// another form, so that Consul's agent learns of it.
func (c *cluster) registration(owner string, s registry.Registration, credential string) *consul.AgentServiceRegistration {
	out := &consul.AgentServiceRegistration{
		Kind: consul.ServiceKind(s.Kind), ID: s.ID, Name: s.Name, Tags: slices.Concat(s.Tags, c.Tags), Port: s.Port, Address: s.Address,
		EnableTagOverride: s.EnableTagOverride, Meta: map[string]string{}, Namespace: cmp.Or(s.Namespace, c.Namespace), Partition: cmp.Or(s.Partition, c.Partition),
	}
	maps.Copy(out.Meta, s.Meta)
	if w := s.Weights; w != nil {
		out.Weights = &consul.AgentWeights{Passing: w.Passing, Warning: w.Warning}
	}
	for k, e := range s.TaggedAddresses {
		if out.TaggedAddresses == nil {
			out.TaggedAddresses = map[string]consul.ServiceAddress{}
		}
		out.TaggedAddresses[k] = consul.ServiceAddress{Address: e.Address, Port: e.Port}
	}
	for _, x := range s.Checks {
		out.Checks = append(out.Checks, check(x))
	}
	out.Meta[metaOwner] = owner
	if out.Meta[metaSource] == "" {
		out.Meta[metaSource] = source
	}
	out.Meta[metaForm] = form(*out, credential)
	return out
}

// form returns what changes with everything that is registered, but not with tags that others
// may change. It is kept with the service, so that the agent need not be asked for it all.
func form(s consul.AgentServiceRegistration, credential string) string {
	if s.EnableTagOverride {
		s.Tags = nil
	}
	body, err := json.Marshal(s)
	if err != nil { // it is plain data
		return ""
	}
	sum := sha256.Sum256(append(body, credential...))
	return hex.EncodeToString(sum[:8])
}

// check returns a check in the words of Consul.
func check(x registry.Check) *consul.AgentServiceCheck {
	out := &consul.AgentServiceCheck{
		CheckID: x.ID, Name: x.Name, Notes: x.Notes, Status: string(x.InitialStatus), TLSServerName: x.TLSServerName, TLSSkipVerify: x.TLSSkipVerify,
		SuccessBeforePassing: x.SuccessBeforePassing, FailuresBeforeCritical: x.FailuresBeforeCritical, FailuresBeforeWarning: x.FailuresBeforeWarning,
	}
	if x.Report != nil {
		out.TTL = x.Report.TTL.String()
		return out
	}
	out.Interval, out.Timeout = x.Interval.String(), x.Timeout.String()
	switch x.Type {
	case registry.CheckHTTP:
		out.HTTP, out.Method, out.Header, out.Body = x.HTTP.Scheme+"://"+x.Address+path(x.HTTP.Path), x.HTTP.Method, x.HTTP.Header, x.HTTP.Body
	case registry.CheckGRPC:
		out.GRPC, out.GRPCUseTLS = x.Address, x.GRPC.TLS
		if x.GRPC.Service != "" {
			out.GRPC += "/" + x.GRPC.Service
		}
	default:
		out.TCP, out.TCPUseTLS = x.Address, false
	}
	return out
}

func path(p string) string {
	if p == "" || p[0] != '/' {
		return "/" + p
	}
	return p
}
