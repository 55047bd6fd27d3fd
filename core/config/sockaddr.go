// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	sockaddr "github.com/hashicorp/go-sockaddr/template"
)

// resolveTemplates replaces templates of addresses, such as {{ GetInterfaceIP "eth0" }} and
// {{ GetPrivateIP }}, by what they are on this machine, and lists those that are nothing.
func (c *Config) resolveTemplates() (problems []string) {
	resolve := func(key string, value *string) {
		if strings.Contains(*value, "{{") {
			got, err := sockaddr.Parse(*value)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: the template %q cannot be read: %v", key, *value, err))
				return
			}
			got = strings.TrimSpace(got)
			if got == "" || strings.HasPrefix(got, ":") {
				problems = append(problems, fmt.Sprintf("%s: the template %q has no result on this machine; write the address itself, or a template that names an interface which it has", key, *value))
				return
			}
			*value = got
		}
		if len(strings.Fields(*value)) > 1 {
			problems = append(problems, fmt.Sprintf("%s is %q, which is several; give one, or bind_addr = \"0.0.0.0\" for all addresses of the machine", key, *value))
		}
	}
	resolve("bind_addr", &c.BindAddr)
	for _, block := range []struct {
		key string
		of  *Addresses
	}{{"addresses", &c.Addresses}, {"advertise", &c.Advertise}} {
		resolve(block.key+".http", &block.of.HTTP)
		resolve(block.key+".rpc", &block.of.RPC)
		resolve(block.key+".serf", &block.of.Serf)
	}
	resolve("client.network_interface", &c.Client.NetworkInterface)
	for _, name := range slices.Sorted(maps.Keys(c.Client.HostNetworks)) {
		network := c.Client.HostNetworks[name]
		resolve(fmt.Sprintf("client.host_network %q: interface", name), &network.Interface)
		c.Client.HostNetworks[name] = network
	}
	return problems
}
