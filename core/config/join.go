// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/srvname"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ServerJoin lists servers. For a node both lists have the same meaning: it tries all
// addresses until one answers, without a limit. A server tries the addresses of StartJoin
// once, as it starts, and fails if none answers; it tries those in RetryJoin until one
// answers.
type ServerJoin struct {
	StartJoin []string `json:"start_join,omitempty"`
	RetryJoin []string `json:"retry_join,omitempty"`
	// RetryInterval is the pause between two rounds of attempts; for a node the longest.
	RetryInterval string `json:"retry_interval,omitempty"`
}

// Join says how a server finds others.
type Join struct {
	ServerJoin
	// RetryMax is the number of rounds after which a server gives up and ends; 0 means
	// no limit.
	RetryMax int `json:"retry_max,omitempty"`
}

// Joins reports whether a server has others to join.
func (s *Server) Joins() bool {
	return len(s.ServerJoin.StartJoin)+len(s.ServerJoin.RetryJoin)+len(s.StartJoin)+len(s.RetryJoin) > 0
}

// Join returns how a server finds others. Addresses without a port get the port of gossip.
func (c *Config) Join() Join {
	s := c.Server
	out := Join{ServerJoin: ServerJoin{RetryInterval: s.ServerJoin.RetryInterval}, RetryMax: s.ServerJoin.RetryMax}
	if out.RetryInterval == "" {
		out.RetryInterval = s.RetryInterval
	}
	if out.RetryMax == 0 {
		out.RetryMax = s.RetryMax
	}
	out.StartJoin, out.RetryJoin = c.gossipAddresses(s.ServerJoin.StartJoin, s.StartJoin), c.gossipAddresses(s.ServerJoin.RetryJoin, s.RetryJoin)
	return out
}

func (c *Config) gossipAddresses(lists ...[]string) (out []string) {
	for _, a := range slices.Concat(lists...) {
		if full, err := serverAddress(a, c.Ports.Serf); err == nil && !slices.Contains(out, full) {
			out = append(out, full)
		}
	}
	return out
}

// GossipAddresses adds the port of gossip to addresses of servers that have none. The error
// names the invalid addresses.
func (c *Config) GossipAddresses(list []string) ([]string, error) {
	var out []string
	for _, a := range list {
		full, err := serverAddress(a, c.Ports.Serf)
		if err != nil {
			return nil, errdefs.InvalidArgumentf("%w", err)
		}
		out = append(out, full)
	}
	return out, nil
}

// defaultRPCPort is the default rpc port of servers.
const defaultRPCPort = 4647

// ServerAddresses returns the addresses of a node's servers as HOST:PORT, without
// duplicates.
func (c *Client) ServerAddresses() []string {
	var out []string
	for _, a := range slices.Concat(c.Servers, c.ServerJoin.StartJoin, c.ServerJoin.RetryJoin) {
		if full, err := serverAddress(a, defaultRPCPort); err == nil && !slices.Contains(out, full) {
			out = append(out, full)
		}
	}
	return out
}

// ServerAddress returns the address of a server as a node is configured with it, with the default
// port if it has none. InvalidArgument: it is not an address.
func ServerAddress(text string) (string, error) {
	full, err := serverAddress(text, defaultRPCPort)
	if err != nil {
		return "", errdefs.InvalidArgumentf("%w", err)
	}
	return full, nil
}

// serverAddress adds a port to an address if it has none. The name of a service has none.
func serverAddress(text string, port int) (string, error) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "provider=") || strings.HasPrefix(text, "exec=") {
		return "", fmt.Errorf("%q asks a cloud or a command for addresses, which is not built in; give HOST:PORT, a name that the DNS resolves, or the name of a service with SRV records such as \"_drover._tcp.example.com\"", text)
	}
	if srvname.Is(text) {
		return text, srvname.Check(text) // the records have the port
	}
	if host, port, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || host == "" {
			return "", fmt.Errorf("%q is not HOST:PORT", text)
		}
		return text, nil
	}
	host := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]") // an IPv6 address without a port
	if host == "" || strings.ContainsAny(host, " /[]") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", fmt.Errorf("%q is not HOST:PORT", text)
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// joinProblems lists the invalid values of how servers and nodes find each other.
func (c *Config) joinProblems() []string {
	var out []string
	for key, list := range map[string][]string{
		"client.servers": c.Client.Servers, "client.server_join.start_join": c.Client.ServerJoin.StartJoin,
		"client.server_join.retry_join": c.Client.ServerJoin.RetryJoin, "server.server_join.start_join": c.Server.ServerJoin.StartJoin,
		"server.server_join.retry_join": c.Server.ServerJoin.RetryJoin, "server.start_join": c.Server.StartJoin, "server.retry_join": c.Server.RetryJoin,
	} {
		for _, a := range list {
			if _, err := serverAddress(a, defaultRPCPort); err != nil {
				out = append(out, fmt.Sprintf("%s: %v", key, err))
			}
		}
	}
	if c.Client.Enabled && !c.Server.Enabled && len(c.Client.ServerAddresses()) == 0 && len(out) == 0 {
		out = append(out, "an agent that is only a node needs servers: set client { servers = [\"HOST:4647\"] } or use -servers, or enable the server too")
	}
	for key, text := range map[string]string{"client": c.Client.ServerJoin.RetryInterval, "server": c.Server.ServerJoin.RetryInterval} {
		if d, err := ParseDuration(text); err != nil || d < 0 {
			out = append(out, fmt.Sprintf("%s.server_join.retry_interval: %q is not a duration such as \"30s\"", key, text))
		}
	}
	out = append(out, c.expectProblems()...)
	slices.Sort(out)
	return out
}

// mostServers limits bootstrap_expect: a cluster of more voters is slower and no safer.
const mostServers = 15

func (c *Config) expectProblems() (out []string) {
	s := c.Server
	if !s.Enabled {
		return nil
	}
	switch n := s.BootstrapExpect; {
	case n < 0 || n > mostServers:
		out = append(out, fmt.Sprintf("server.bootstrap_expect %d is not a number of servers (1 to %d; 3 or 5 are usual)", n, mostServers))
	case c.Dev && (n != 1 || s.Joins()):
		out = append(out, "a development agent is a cluster of its own: run an agent without -dev to use bootstrap_expect, server_join, start_join or retry_join")
	case n > 1 && n%2 == 0:
		c.warnOnce(fmt.Sprintf("server.bootstrap_expect is %d: an even number of servers bears the loss of no more of them than one fewer", n))
	}
	if s.RetryMax < 0 || s.ServerJoin.RetryMax < 0 {
		out = append(out, "server.retry_max must not be negative")
	}
	return out
}
