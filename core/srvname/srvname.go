// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package srvname turns the names of services, which the DNS knows with SRV records, into
// the addresses of servers. Such a name is an address without a port in the configuration
// of agents: the records have the ports. It is looked up anew each time, so that servers
// may move.
package srvname

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Is reports whether an address is the name of a service, such as
// "_drover._tcp.example.com". Names of machines never begin with an underscore.
func Is(address string) bool { return strings.HasPrefix(address, "_") }

// Check returns an error if the name of a service is malformed.
func Check(name string) error {
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	switch {
	case strings.ContainsAny(name, ":/[] "):
		return errdefs.InvalidArgumentf("%q is not the name of a service: it has no port and nothing else but the name, as SRV records have the ports", name)
	case len(labels) < 3 || len(labels[0]) < 2 || labels[1] != "_tcp" && labels[1] != "_udp":
		return errdefs.InvalidArgumentf("%q is not the name of a service; give one such as \"_drover._tcp.example.com\"", name)
	}
	for _, l := range labels {
		if l == "" {
			return errdefs.InvalidArgumentf("%q is not the name of a service: a part between two dots is empty", name)
		}
	}
	return nil
}

// Lookup returns the addresses, HOST:PORT, behind the name of a service, in the order in
// which the records want them to be tried.
func Lookup(ctx context.Context, name string) ([]string, error) {
	_, records, err := net.DefaultResolver.LookupSRV(ctx, "", "", name)
	if err != nil {
		return nil, errdefs.Unavailablef("look up the servers behind %s: %w", name, err)
	}
	var out []string
	for _, r := range records {
		if host := strings.TrimSuffix(r.Target, "."); host != "" { // "." means that there is no such service
			out = append(out, net.JoinHostPort(host, strconv.Itoa(int(r.Port))))
		}
	}
	if len(out) == 0 {
		return nil, errdefs.Unavailablef("the DNS has no server behind %s", name)
	}
	return out, nil
}

// Expand replaces the names of services in a list of addresses by the addresses of their
// servers. Names whose lookup fails are left out. The error says why, and is nil if any
// address is left.
func Expand(ctx context.Context, addresses []string) ([]string, error) {
	var out []string
	var failed error
	for _, a := range addresses {
		if !Is(a) {
			out = append(out, a)
			continue
		}
		found, err := Lookup(ctx, a)
		if err != nil {
			failed = fmt.Errorf("no address of a server is known: %w", err)
			continue
		}
		out = append(out, found...)
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, failed
}
