// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"fmt"
	"strconv"

	"github.com/drover-project/drover/core/agent"
	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/endpoint"
)

// consulRegistry is the registry to which the consul blocks belong.
const consulRegistry = "consul"

// advertised says in which clusters the agent registers itself.
func (d *Daemon) advertised() map[string]map[string]agent.Advertised {
	all := map[string]agent.Advertised{}
	for name, c := range d.cfg().Advertised() {
		all[name] = agent.Advertised{
			Service: c.ClientServiceName, Check: c.ClientHTTPCheckName, TLS: d.cfg().TLS.HTTP,
			FailuresBeforeCritical: c.ClientFailuresBeforeCritical, FailuresBeforeWarning: c.ClientFailuresBeforeWarning,
		}
	}
	return map[string]map[string]agent.Advertised{consulRegistry: all}
}

// consulIdentities are the identities that jobs get for clusters of Consul.
func (d *Daemon) consulIdentities() map[string]endpoint.ConsulIdentities {
	out := map[string]endpoint.ConsulIdentities{}
	for name, c := range d.cfg().Consul {
		out[name] = endpoint.ConsulIdentities{Service: c.ServiceIdentity.Model(), Task: c.TaskIdentity.Model()}
	}
	return out
}

// consulFlags declares the flags about the Consul agent of the machine.
func (o *options) consulFlags() {
	add := func(name, usage string, set func(*config.Consul, string)) {
		o.add(name, usage, false, func(c *config.Config, v string) error {
			c.SetConsul(func(one *config.Consul) { set(one, v) })
			return nil
		})
	}
	add("consul-address", "Address of the Consul agent with which services are registered.", func(c *config.Consul, v string) { c.Address = v })
	add("consul-token", "Token for the Consul agent.", func(c *config.Consul, v string) { c.Token = v })
	add("consul-auth", "User and password for the Consul agent, as USER:PASSWORD.", func(c *config.Consul, v string) { c.Auth = v })
	add("consul-ca-file", "Authorities of the Consul agent's certificate.", func(c *config.Consul, v string) { c.CAFile = v })
	add("consul-cert-file", "Certificate for the Consul agent.", func(c *config.Consul, v string) { c.CertFile = v })
	add("consul-key-file", "Key of the certificate for the Consul agent.", func(c *config.Consul, v string) { c.KeyFile = v })
	add("consul-client-service-name", "Name under which the node registers itself in Consul.", func(c *config.Consul, v string) { c.ClientServiceName = v })
	add("consul-client-http-check-name", "Name of the check of the node in Consul.", func(c *config.Consul, v string) { c.ClientHTTPCheckName = v })
	for name, field := range map[string]func(*config.Consul) *int{
		"consul-client-failures-before-critical": func(c *config.Consul) *int { return &c.ClientFailuresBeforeCritical },
		"consul-client-failures-before-warning":  func(c *config.Consul) *int { return &c.ClientFailuresBeforeWarning },
	} {
		o.add(name, "Failures in a row before the check of the node has that status.", false, func(c *config.Config, v string) error {
			n, err := strconv.ParseUint(v, 10, 16)
			if err != nil {
				return fmt.Errorf("%q is not a number of failures", v)
			}
			c.SetConsul(func(one *config.Consul) { *field(one) = int(n) })
			return nil
		})
	}
	for name, set := range map[string]struct {
		usage string
		field func(*config.Consul) **bool
	}{
		"consul-ssl":            {"Speak TLS with the Consul agent.", func(c *config.Consul) **bool { return &c.SSL }},
		"consul-verify-ssl":     {"Verify the Consul agent's certificate.", func(c *config.Consul) **bool { return &c.VerifySSL }},
		"consul-auto-advertise": {"Register the node itself in Consul.", func(c *config.Consul) **bool { return &c.AutoAdvertise }},
	} {
		o.add(name, set.usage, true, func(c *config.Config, v string) error {
			on, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%q is not true or false", v)
			}
			c.SetConsul(func(one *config.Consul) { *set.field(one) = &on })
			return nil
		})
	}
}
