// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"net"
	"strconv"
)

// ListenHTTP returns the address on which the HTTP API listens.
func (c *Config) ListenHTTP() string { return hostPort(c.Addresses.HTTP, c.BindAddr, c.Ports.HTTP) }

// ListenRPC returns the address on which a server listens for nodes and servers.
func (c *Config) ListenRPC() string { return hostPort(c.Addresses.RPC, c.BindAddr, c.Ports.RPC) }

// AdvertiseHTTP returns the advertised address of the HTTP API.
func (c *Config) AdvertiseHTTP() string {
	return advertised(c.Advertise.HTTP, c.Addresses.HTTP, c.BindAddr, c.Ports.HTTP)
}

// AdvertiseRPC returns the advertised rpc address of the server.
func (c *Config) AdvertiseRPC() string {
	return advertised(c.Advertise.RPC, c.Addresses.RPC, c.BindAddr, c.Ports.RPC)
}

// ListenSerf returns the address on which a server gossips with others.
func (c *Config) ListenSerf() string { return hostPort(c.Addresses.Serf, c.BindAddr, c.Ports.Serf) }

// AdvertiseSerf returns the advertised address of the server's gossip.
func (c *Config) AdvertiseSerf() string {
	return advertised(c.Advertise.Serf, c.Addresses.Serf, c.BindAddr, c.Ports.Serf)
}

func hostPort(host, otherwise string, port int) string {
	if host == "" {
		host = otherwise
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// advertised returns the address to advertise: the configured one, or the bound one,
// or, if that is a wildcard address, the machine's first address that is not loopback.
func advertised(configured, bound, otherwise string, port int) string {
	if configured != "" {
		if _, _, err := net.SplitHostPort(configured); err == nil {
			return configured
		}
		return hostPort(configured, "", port)
	}
	host := bound
	if host == "" {
		host = otherwise
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = firstAddress()
	}
	return hostPort(host, "127.0.0.1", port)
}

func firstAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}
