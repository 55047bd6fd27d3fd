// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client/pkg/versions"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// network sets the network mode and the published ports.
func network(in specInput, config *container.Config, host *container.HostConfig) (*dockernet.NetworkingConfig, error) {
	mode, err := networkMode(in)
	if err != nil {
		return nil, err
	}
	host.NetworkMode = mode
	if mode.IsContainer() {
		config.Hostname = "" // belongs to the owner of the network namespace
	}
	if err := resolver(in, host); err != nil {
		return nil, err
	}
	if err := publish(in, config, host); err != nil {
		return nil, err
	}
	return endpoint(in, mode)
}

func networkMode(in specInput) (container.NetworkMode, error) {
	mode := in.config.NetworkMode
	if n := in.task.Network; n != nil {
		switch n.Mode {
		case driver.NetworkNone:
			return "none", nil
		case driver.NetworkGroup:
			id := n.Labels[sandboxLabel]
			if id == "" {
				return "", errdefs.InvalidArgumentf("the group's network is a namespace that the docker driver has not made, and the Docker daemon cannot join it; use mode \"host\" in the group's network")
			}
			return container.NetworkMode("container:" + id), groupDecides(in.config)
		}
	}
	if mode == "" || mode == "default" {
		if in.host.os == "windows" {
			return "nat", nil
		}
		return "bridge", nil
	}
	if rest, ok := strings.CutPrefix(mode, "container:"); ok && rest == "" {
		return "", invalidf("network_mode", "%q names no container", mode)
	}
	return container.NetworkMode(mode), nil
}

// groupDecides refuses attributes about what the network of the group decides.
func groupDecides(c taskConfig) error {
	switch {
	case c.NetworkMode != "" && c.NetworkMode != "default":
		return invalidf("network_mode", "%q is not the network of the group, which all its tasks share; remove one of both", c.NetworkMode)
	case c.Hostname != "":
		return invalidf("hostname", "all tasks of the group have one; set hostname in the group's network")
	case len(c.PortMap) > 0:
		return invalidf("port_map", "the group's network maps its ports; set to = PORT in the group's port")
	case c.MacAddress != "":
		return invalidf("mac_address", "all tasks of the group share an interface; remove it")
	}
	return nil
}

// joinsGroup reports whether the task shares a namespace with the tasks of its group.
func joinsGroup(task *driver.TaskConfig) bool {
	return task.Network != nil && task.Network.Mode == driver.NetworkGroup
}

// dns returns the DNS configuration. The task's config overrides the group's.
func dns(in specInput) driver.DNSConfig {
	out := driver.DNSConfig{Servers: in.config.DNSServers, Searches: in.config.DNSSearchDomains, Options: in.config.DNSOptions}
	if d := in.task.DNS; d != nil {
		if len(out.Servers) == 0 {
			out.Servers = d.Servers
		}
		if len(out.Searches) == 0 {
			out.Searches = d.Searches
		}
		if len(out.Options) == 0 {
			out.Options = d.Options
		}
	}
	return out
}

// resolver sets the DNS configuration and the extra hosts. In the network of a group they
// are in files of the task; see names.
func resolver(in specInput, host *container.HostConfig) error {
	c := dns(in)
	var servers []netip.Addr
	for _, text := range c.Servers {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return invalidf("dns_servers", "%q is not an IP address", text)
		}
		servers = append(servers, addr)
	}
	for _, text := range in.config.ExtraHosts {
		name, addr, ok := strings.Cut(text, ":")
		if !ok || name == "" || addr == "" {
			return invalidf("extra_hosts", "%q is not NAME:ADDRESS", text)
		}
		if _, err := netip.ParseAddr(strings.Trim(addr, "[]")); err != nil && addr != "host-gateway" {
			return invalidf("extra_hosts", "%q of %q is neither an IP address nor host-gateway", addr, name)
		}
	}
	if !joinsGroup(in.task) {
		host.DNS, host.DNSSearch, host.DNSOptions, host.ExtraHosts = servers, c.Searches, c.Options, in.config.ExtraHosts
	}
	return nil
}

// mapped returns the container's port for each label that the task maps.
func mapped(in specInput) (map[string]int, error) {
	byLabel := map[string]driver.Port{}
	for _, p := range in.task.Ports {
		byLabel[p.Label] = p
	}
	out := map[string]int{}
	for _, label := range in.config.Ports {
		p, ok := byLabel[label]
		if !ok {
			return nil, invalidf("ports", "the group's network has no port %q", label)
		}
		out[label] = p.To
		if p.To <= 0 {
			out[label] = p.Value
		}
	}
	if err := portMap(in, nil); err != nil {
		return nil, err
	}
	for label, inside := range merged(in.config.PortMap) {
		if _, ok := byLabel[label]; !ok {
			return nil, invalidf("port_map", "the group's network has no port %q", label)
		}
		out[label] = inside
	}
	return out, nil
}

// portMap checks the ports in port_map.
func portMap(in specInput, _ *container.HostConfig) error {
	inside := merged(in.config.PortMap)
	for _, label := range slices.Sorted(maps.Keys(inside)) {
		if n := inside[label]; n < 1 || n > 65535 {
			return invalidf("port_map", "%s = %d is not a port", label, n)
		}
	}
	return nil
}

// publish publishes ports of the container on the machine, for TCP and UDP.
func publish(in specInput, config *container.Config, host *container.HostConfig) error {
	inside, err := mapped(in)
	if err != nil || len(inside) == 0 {
		return err
	}
	if m := host.NetworkMode; m.IsHost() || m.IsContainer() || m.IsNone() {
		return nil // the task listens on the machine's ports directly, or on none
	}
	config.ExposedPorts, host.PortBindings = dockernet.PortSet{}, dockernet.PortMap{}
	for _, p := range in.task.Ports {
		number, ok := inside[p.Label]
		if !ok {
			continue
		}
		tellPort(config, p, number)
		binding := dockernet.PortBinding{HostPort: strconv.Itoa(p.Value)}
		if p.HostIP != "" {
			if binding.HostIP, err = netip.ParseAddr(p.HostIP); err != nil {
				return errdefs.InvalidArgumentf("port %q: its address %q is not an IP address", p.Label, p.HostIP)
			}
		}
		for _, proto := range []dockernet.IPProtocol{dockernet.TCP, dockernet.UDP} {
			port, _ := dockernet.PortFrom(uint16(number), proto) // both are valid
			config.ExposedPorts[port] = struct{}{}
			host.PortBindings[port] = append(host.PortBindings[port], binding)
		}
	}
	return nil
}

// tellPort sets the NOMAD_PORT variable of a port to the port in the container,
// since only the driver knows port_map.
func tellPort(config *container.Config, p driver.Port, number int) {
	name := "NOMAD_PORT_" + p.Label + "="
	for i, text := range config.Env {
		if strings.HasPrefix(text, name) {
			config.Env[i] = name + strconv.Itoa(number)
		}
	}
}

// apiWithMac is the first API version in which the MAC address belongs to the
// endpoint.
const apiWithMac = "1.44"

// endpoint returns the container's configuration in its network.
func endpoint(in specInput, mode container.NetworkMode) (*dockernet.NetworkingConfig, error) {
	c := in.config
	if len(c.NetworkAliases) == 0 && c.IPv4Address == "" && c.IPv6Address == "" && c.MacAddress == "" {
		return nil, nil
	}
	e := &dockernet.EndpointSettings{Aliases: c.NetworkAliases}
	if c.IPv4Address != "" || c.IPv6Address != "" || len(c.NetworkAliases) > 0 {
		if !mode.IsUserDefined() {
			return nil, invalidf("network_mode", "%q is no network of the daemon, which network_aliases, ipv4_address and ipv6_address need; name one", mode)
		}
	}
	if c.MacAddress != "" {
		mac, err := net.ParseMAC(c.MacAddress)
		if err != nil {
			return nil, invalidf("mac_address", "%q is not a hardware address", c.MacAddress)
		}
		if versions.LessThan(in.api, apiWithMac) {
			return nil, errdefs.FailedPreconditionf("config.mac_address: needs a Docker daemon with API %s, this one has %s; upgrade it", apiWithMac, in.api)
		}
		e.MacAddress = dockernet.HardwareAddr(mac)
	}
	ipam := &dockernet.EndpointIPAMConfig{}
	for _, a := range []struct {
		name, text string
		into       *netip.Addr
		v6         bool
	}{{"ipv4_address", c.IPv4Address, &ipam.IPv4Address, false}, {"ipv6_address", c.IPv6Address, &ipam.IPv6Address, true}} {
		if a.text == "" {
			continue
		}
		addr, err := netip.ParseAddr(a.text)
		if err != nil || addr.Is6() != a.v6 {
			return nil, invalidf(a.name, "%q is not such an address", a.text)
		}
		*a.into, e.IPAMConfig = addr, ipam
	}
	return &dockernet.NetworkingConfig{EndpointsConfig: map[string]*dockernet.EndpointSettings{mode.NetworkName(): e}}, nil
}

// override returns the address that the daemon assigned to the container, or nil if
// the container has no address of its own.
func override(c container.InspectResponse, advertiseV6 bool, ports map[string]int) *driver.NetworkOverride {
	if c.NetworkSettings == nil || c.HostConfig == nil || c.HostConfig.NetworkMode.IsHost() {
		return nil
	}
	names := make([]string, 0, len(c.NetworkSettings.Networks))
	for name := range c.NetworkSettings.Networks {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e := c.NetworkSettings.Networks[name]
		if e == nil {
			continue
		}
		// In a user-defined network the machine's ports have no meaning.
		out := &driver.NetworkOverride{PortMap: ports, AutoAdvertise: c.HostConfig.NetworkMode.IsUserDefined()}
		if advertiseV6 && e.GlobalIPv6Address.IsValid() {
			out.IP, out.AutoAdvertise = e.GlobalIPv6Address.String(), true
			return out
		}
		if e.IPAddress.IsValid() {
			out.IP = e.IPAddress.String()
			return out
		}
	}
	return nil
}
