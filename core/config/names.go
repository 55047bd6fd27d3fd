// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"net"
	"os"
	"strings"
)

// HTTPNames returns the names under which clients may call the HTTP API, besides
// addresses and localhost: the agent's configured names and the machine's name.
func (c *Config) HTTPNames() []string {
	names := append([]string{c.BindAddr, c.Name}, c.AllowedHosts...)
	for _, addr := range []string{c.Addresses.HTTP, c.Advertise.HTTP} {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			addr = host
		}
		names = append(names, addr)
	}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	return names
}

// allowedHostProblems lists the invalid values of http_allowed_hosts.
func (c *Config) allowedHostProblems() (out []string) {
	for _, h := range c.AllowedHosts {
		if h == "" || strings.ContainsAny(h, "/: ") || strings.Contains(strings.TrimPrefix(h, "*."), "*") && h != "*" {
			out = append(out, "http_allowed_hosts: "+strings.TrimSpace(h)+" is not a name of a host such as \"nomad.example.com\" or \"*.example.com\", without a scheme and a port")
		}
	}
	return out
}
