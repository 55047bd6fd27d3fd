// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// ServerJoin lists servers of a node. Both lists have the same meaning: a node tries
// all addresses until one answers, without a limit.
type ServerJoin struct {
	StartJoin []string `json:"start_join,omitempty"`
	RetryJoin []string `json:"retry_join,omitempty"`
	// RetryInterval is the longest pause between two rounds of attempts.
	RetryInterval string `json:"retry_interval,omitempty"`
}

// defaultRPCPort is the default rpc port of servers.
const defaultRPCPort = 4647

// ServerAddresses returns the addresses of a node's servers as HOST:PORT, without
// duplicates.
func (c *Client) ServerAddresses() []string {
	var out []string
	for _, a := range slices.Concat(c.Servers, c.ServerJoin.StartJoin, c.ServerJoin.RetryJoin) {
		if full, err := serverAddress(a); err == nil && !slices.Contains(out, full) {
			out = append(out, full)
		}
	}
	return out
}

// serverAddress adds the default port to an address if it has none.
func serverAddress(text string) (string, error) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "provider=") {
		return "", fmt.Errorf("%q asks a cloud for addresses, which is not possible yet; give HOST:PORT, or a name that the DNS resolves", text)
	}
	if host, port, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || host == "" {
			return "", fmt.Errorf("%q is no HOST:PORT", text)
		}
		return text, nil
	}
	host := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]") // an IPv6 address without a port
	if host == "" || strings.ContainsAny(host, " /[]") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", fmt.Errorf("%q is no HOST:PORT", text)
	}
	return net.JoinHostPort(host, strconv.Itoa(defaultRPCPort)), nil
}

// joinProblems lists the invalid values of how servers and nodes find each other.
func (c *Config) joinProblems() []string {
	var out []string
	for key, list := range map[string][]string{
		"client.servers": c.Client.Servers, "client.server_join.start_join": c.Client.ServerJoin.StartJoin,
		"client.server_join.retry_join": c.Client.ServerJoin.RetryJoin,
	} {
		for _, a := range list {
			if _, err := serverAddress(a); err != nil {
				out = append(out, fmt.Sprintf("%s: %v", key, err))
			}
		}
	}
	if c.Client.Enabled && !c.Server.Enabled && len(c.Client.ServerAddresses()) == 0 && len(out) == 0 {
		out = append(out, "an agent that is only a node needs servers: set client { servers = [\"HOST:4647\"] } or use -servers, or enable the server too")
	}
	if d, err := ParseDuration(c.Client.ServerJoin.RetryInterval); err != nil || d < 0 {
		out = append(out, fmt.Sprintf("client.server_join.retry_interval: %q is not a duration such as \"30s\"", c.Client.ServerJoin.RetryInterval))
	}
	if n := c.Server.BootstrapExpect; c.Server.Enabled && n > 1 {
		out = append(out, fmt.Sprintf("server.bootstrap_expect is %d, but this release runs one server: leave it out or set it to 1", n))
	}
	slices.Sort(out)
	return out
}
