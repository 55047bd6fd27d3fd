// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/agent/logins"
	"github.com/drover-project/drover/core/agent/registrar"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Advertised is how the agent registers itself in a cluster of a registry.
type Advertised struct {
	Service string   // name of the service
	Tags    []string // in addition to "http"
	Check   string   // name of its check
	Address string   // host:port at which the check asks; "" means the address of the API
	TLS     bool     // the API speaks TLS
	// FailuresBeforeCritical and FailuresBeforeWarning are settings of the check.
	FailuresBeforeCritical, FailuresBeforeWarning int
}

// The check of an agent that registers itself.
const (
	ownCheckInterval = 10 * time.Second
	ownCheckTimeout  = 2 * time.Second
)

// addRegistries writes the attributes of registries' clusters into the node. Those of a
// cluster that cannot be reached are what the plugin still says about it.
func addRegistries(n *model.Node, prints []pluginhost.RegistryFingerprint) {
	for _, p := range prints {
		for _, c := range p.Clusters {
			maps.Copy(n.Attributes, c.Attributes)
		}
	}
}

// openRegistrar makes what keeps the node's services registered outside of the cluster.
func (a *Agent) openRegistrar() {
	a.logins = logins.New(logins.Config{Host: a.plugins, Store: a.store, Sign: a.signFor, Now: time.Now, Logger: a.cfg.Logger.Named("logins")})
	a.registrar = registrar.New(registrar.Config{
		Logins: a.logins,
		Host:   a.plugins, Owner: a.nodeID, Own: a.ownServices, Logger: a.cfg.Logger.Named("registrar"),
		Runners: func() (out []registrar.Runner) {
			for _, r := range a.allocs.Runners() {
				out = append(out, r)
			}
			return out
		},
	})
}

// signFor returns a token for one identity of a task or of a service.
func (a *Agent) signFor(ctx context.Context, allocID, task, identity string) (string, error) {
	got, err := signatures{a}.Sign(ctx, allocID, task, []string{identity})
	if err != nil {
		return "", err
	}
	return got[0].JWT, nil
}

// loginOf returns the login with an id, of a task of the node that has not ended.
func (a *Agent) loginOf(id string) (logins.Login, error) {
	for _, r := range a.allocs.Runners() {
		for _, l := range r.Logins() {
			if l.ID == id {
				return l, nil
			}
		}
	}
	return logins.Login{}, errdefs.NotFoundf("the task of login %q has ended", id)
}

// ownServices returns the registrations of the agent itself in a cluster.
func (a *Agent) ownServices(registryName, cluster string) []registry.Registration {
	how, ok := a.cfg.Advertise[registryName][cluster]
	if !ok {
		return nil
	}
	host, text, err := net.SplitHostPort(a.cfg.Node.HTTPAddr)
	port, perr := strconv.ParseUint(text, 10, 16)
	if err != nil || perr != nil {
		return nil // it has no API that others reach
	}
	id := "_nomad-client-" + a.nodeID
	check := registry.Check{
		ID: id + "-http", Name: how.Check, Type: registry.CheckHTTP, Address: a.cfg.Node.HTTPAddr, Interval: ownCheckInterval, Timeout: ownCheckTimeout,
		HTTP:                   &registry.HTTP{Scheme: "http", Path: "/v1/agent/health?type=client"},
		FailuresBeforeCritical: how.FailuresBeforeCritical, FailuresBeforeWarning: how.FailuresBeforeWarning,
	}
	if how.Address != "" {
		check.Address = how.Address
	}
	if how.TLS {
		check.HTTP.Scheme, check.TLSSkipVerify = "https", true
	}
	return []registry.Registration{{ID: id, Name: how.Service, Address: host, Port: int(port), Tags: slices.Concat([]string{"http"}, how.Tags), Checks: []registry.Check{check}}}
}

// flushServices has the clusters know that the tasks of an agent that ends have ended.
func (a *Agent) flushServices(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	a.registrar.Flush(ctx)
}

const flushLimit = 5 * time.Second
