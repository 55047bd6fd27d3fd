// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"cmp"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/agent/logins"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/core/services"
)

// reportTTL is how long the result of a check that the node runs is valid in a registry: long
// enough for a restart of the agent.
const reportTTL = 2 * time.Minute

// Offered is a service that a registry outside of the cluster is to know.
type Offered struct {
	Registry, Cluster string
	registry.Registration
	// Login is that with which the service is registered; nil for the node's rights.
	Login *logins.Login
}

// Offers returns what the alloc offers in registries outside of the cluster now.
func (r *Runner) Offers() []Offered {
	if !r.offersAny() {
		return nil
	}
	r.mu.Lock()
	if r.closed || !r.begun {
		r.mu.Unlock()
		return nil
	}
	now, seen := *r.alloc, r.view()
	set, keys := r.checked.set, r.checked.keys
	r.mu.Unlock()
	now.ClientStatus, now.TaskStates, now.NetworkStatus = seen.ClientStatus, seen.TaskStates, seen.NetworkStatus
	offers, _ := services.Offers(services.Input{Alloc: &now, Job: now.Job, Node: r.cfg.Node()})
	var results []checks.Result
	if set != nil {
		results = set.Results()
	}
	out := make([]Offered, 0, len(offers))
	for _, o := range offers {
		s := o.Service
		one := Offered{Registry: o.Provider, Cluster: o.Cluster, Registration: registry.Registration{
			ID: o.ID, Name: s.Name, Namespace: o.Namespace, Partition: o.Partition, Address: o.At.Address, Port: o.At.Port, Tags: s.Tags, Meta: s.Meta,
			TaggedAddresses: tagged(o), Kind: s.Kind, EnableTagOverride: s.EnableTagOverride,
		}}
		if w := s.Weights; w != nil {
			one.Weights = &registry.Weights{Passing: w.Passing, Warning: w.Warning}
		}
		one.Checks = r.offeredChecks(&now, o, results, keys)
		if id := s.Identity; id != nil {
			one.Login = &logins.Login{
				Place: logins.Place{Registry: o.Provider, Cluster: o.Cluster}, ID: o.ID, For: registry.ForService, AllocID: r.id, Task: o.Task, Identity: id.Name,
				Meta: loginMeta(r.id, "service", s.Name),
			}
		}
		out = append(out, one)
	}
	return out
}

// offersAny reports whether a service of the group is for a registry outside of the cluster.
func (r *Runner) offersAny() bool {
	r.mu.Lock()
	tg := r.group
	r.mu.Unlock()
	any := func(list []*model.Service) bool {
		for _, s := range list {
			if s != nil && s.Provider != services.ProviderNomad {
				return true
			}
		}
		return false
	}
	if any(tg.Services) {
		return true
	}
	for _, t := range tg.Tasks {
		if any(t.Services) {
			return true
		}
	}
	return false
}

// tagged returns the tagged addresses of a service. An address without a port gets the
// service's port.
func tagged(o services.Offer) map[string]registry.Endpoint {
	if len(o.Tagged) == 0 {
		return nil
	}
	out := make(map[string]registry.Endpoint, len(o.Tagged))
	for k, v := range o.Tagged {
		e := registry.Endpoint{Address: v, Port: o.At.Port}
		if at, err := netip.ParseAddrPort(v); err == nil {
			e = registry.Endpoint{Address: at.Addr().String(), Port: int(at.Port())}
		} else if host, port, err := net.SplitHostPort(v); err == nil {
			if n, err := strconv.ParseUint(port, 10, 16); err == nil {
				e = registry.Endpoint{Address: host, Port: int(n)}
			}
		}
		out[k] = e
	}
	return out
}

// offeredChecks returns the checks of an offered service. The registry runs them itself,
// except for scripts, of which it gets the results.
func (r *Runner) offeredChecks(a *model.Allocation, o services.Offer, results []checks.Result, keys map[string]string) (out []registry.Check) {
	for i, c := range o.Service.Checks {
		one := registry.Check{
			ID: o.ID + "-check-" + strconv.Itoa(i), Name: checkName(o.Service.Name, c.Name), Notes: c.Notes, InitialStatus: registry.Status(strings.ToLower(c.InitialStatus)),
			SuccessBeforePassing: c.SuccessBeforePassing, FailuresBeforeCritical: c.FailuresBeforeCritical, FailuresBeforeWarning: c.FailuresBeforeWarning,
		}
		if strings.EqualFold(c.Type, "script") {
			one.Type, one.Report = registry.CheckReport, report(c, o.Key, results, keys)
			out = append(out, one)
			continue
		}
		place := place{service: o.Service, check: c, task: cmp.Or(c.TaskName, o.Service.TaskName, o.Task)}
		asked, address, err := r.offeredTarget(a, place)
		if err != nil {
			r.logger.Debug("a check is not registered, because it has no address", "service", o.Service.Name, "check", one.Name, "error", err)
			continue
		}
		one.Name, one.Type, one.Address, one.Interval, one.Timeout = checkName(o.Service.Name, asked.Name), registry.CheckTCP, address, c.Interval, c.Timeout
		one.TLSServerName, one.TLSSkipVerify = asked.TLSServerName, asked.TLSSkipVerify
		switch strings.ToLower(c.Type) {
		case "http":
			one.Type = registry.CheckHTTP
			one.HTTP = &registry.HTTP{Scheme: cmp.Or(strings.ToLower(asked.Protocol), "http"), Path: asked.Path, Method: asked.Method, Header: asked.Header, Body: asked.Body}
		case "grpc":
			one.Type, one.GRPC = registry.CheckGRPC, &registry.GRPC{Service: asked.GRPCService, TLS: asked.GRPCUseTLS}
		}
		out = append(out, one)
	}
	return out
}

// offeredTarget returns a check with its ${...} replaced, and where it is sent.
func (r *Runner) offeredTarget(a *model.Allocation, p place) (*model.ServiceCheck, string, error) {
	r.mu.Lock()
	from, of := r.whence(a, p)
	r.mu.Unlock()
	s, c := r.asked(&from, of, p)
	at, err := from.EndpointOfCheck(s, c)
	if err != nil {
		return nil, "", err
	}
	return c, net.JoinHostPort(at.Address, strconv.Itoa(at.Port)), nil
}

// report returns the last result of a check that the node runs.
func report(c *model.ServiceCheck, key string, results []checks.Result, keys map[string]string) *registry.Report {
	out := &registry.Report{Status: registry.StatusCritical, Output: "it has not run yet", TTL: reportTTL}
	if s := registry.Status(strings.ToLower(c.InitialStatus)); s != "" {
		out.Status = s
	}
	for _, x := range results {
		if x.Spec.Check != c && (x.Spec.Check.Name != c.Name || x.Spec.Check.Command != c.Command || keys[x.Spec.ID] != key) {
			continue
		}
		switch x.State.Status {
		case checks.Success:
			out.Status, out.Output = registry.StatusPassing, x.State.Output
		case checks.Warning:
			out.Status, out.Output = registry.StatusWarning, x.State.Output
		case checks.Failure:
			out.Status, out.Output = registry.StatusCritical, x.State.Output
		}
	}
	return out
}

// NoteRefused tells, by an event of the group's first task, that a registry refuses a service.
func (r *Runner) NoteRefused(reason string) {
	r.mu.Lock()
	name := r.group.Tasks[0].Name
	r.mu.Unlock()
	r.note(name, model.TaskEvent{Type: model.TaskHookMessage, Message: reason, DisplayMessage: reason, Details: map[string]string{"message": reason}})
}
