// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net"
)

// Door is a port of the agent through which other machines can do things that only
// operators should.
type Door struct {
	Name   string // "http" or "rpc"
	Danger string // what an attacker could do
	Close  string // configuration that closes it
}

// String describes the door in one line.
func (d Door) String() string { return d.Danger + ". To close it: " + d.Close }

// OpenDoors lists the ports that accept connections from other machines without a
// client certificate. There is no access control behind them yet.
func (c *Config) OpenDoors() []Door {
	var out []Door
	const files = `ca_file = "CA.pem", cert_file = "AGENT.pem", key_file = "AGENT-KEY.pem"`
	if at := c.ListenHTTP(); !onLoopback(at) && !(c.TLS.HTTP && c.TLS.VerifyHTTPSClient) {
		why := "without TLS"
		if c.TLS.HTTP {
			why = "without asking clients for certificates"
		}
		out = append(out, Door{"http",
			fmt.Sprintf("the HTTP API listens on %s %s: whoever reaches it can run programs on all nodes with the rights of their agents, read all variables and logs, and stop every job", at, why),
			`tls { http = true, verify_https_client = true, ` + files + ` }, or addresses { http = "127.0.0.1" }`})
	}
	if at := c.ListenRPC(); c.Server.Enabled && !onLoopback(at) && !c.TLS.RPC {
		out = append(out, Door{"rpc",
			fmt.Sprintf("the server listens for nodes on %s without TLS: whoever reaches it can join as a node and is given jobs with their secrets (without a key of the gossip, server.encrypt, also as a server, which has all of the state), and whoever is on the way can read and change what nodes are told", at),
			`tls { rpc = true, verify_server_hostname = true, ` + files + ` }, or addresses { rpc = "127.0.0.1" }`})
	}
	return out
}

// onLoopback reports whether an address (HOST:PORT) can be reached only from this
// machine.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}
