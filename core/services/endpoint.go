// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package services

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// The values of address_mode.
const (
	AddressAuto      = "auto"       // the driver's address if the driver asks for that, else host
	AddressHost      = "host"       // the node's address, with the port on the node
	AddressDriver    = "driver"     // the address that the driver gave the task
	AddressAlloc     = "alloc"      // the address in the alloc's own network
	AddressAllocIPv6 = "alloc_ipv6" // the same, of the newer family
)

// Place is where a service or a check is: everything that can give it an address.
type Place struct {
	// Alloc has its AllocatedResources, and NetworkStatus as soon as its network is made.
	Alloc *model.Allocation
	// Task is the task that offers the service; "" if the group does.
	Task string
	// Driver is the network that the driver gave the task; nil if it gave none.
	Driver *model.DriverNetwork
	// NodeAddress is the address of the node. It is that of a service whose group has no
	// ports.
	NodeAddress string
}

// Endpoint is an address with a port. Port is 0 if the service has none.
type Endpoint struct {
	Address string
	Port    int
}

// EndpointOf finds the endpoint of a service. Its strings must have been interpolated.
func (p Place) EndpointOf(s *model.Service) (Endpoint, error) {
	if strings.Contains(s.Name, "${") { // nobody asks for such a name
		return Endpoint{}, errdefs.FailedPreconditionf("service %q: neither the job nor the node defines what its name refers to; correct the name", s.Name)
	}
	out, err := p.find(cmp.Or(s.AddressMode, AddressAuto), s.PortLabel)
	if err != nil {
		return Endpoint{}, fmt.Errorf("service %q: %w", s.Name, err)
	}
	if s.Address != "" {
		out.Address = s.Address
	}
	return out, nil
}

// EndpointOfCheck finds the endpoint to which a check of a service goes. A check without a
// port has the port of its service, and one without an address_mode goes to the node's
// address. Strings must have been interpolated.
func (p Place) EndpointOfCheck(s *model.Service, c *model.ServiceCheck) (Endpoint, error) {
	mode := cmp.Or(c.AddressMode, AddressHost)
	out, err := p.find(mode, cmp.Or(c.PortLabel, s.PortLabel))
	switch {
	case err != nil:
		return Endpoint{}, fmt.Errorf("check %q of service %q: %w", c.Name, s.Name, err)
	case out.Address == "":
		return Endpoint{}, errdefs.FailedPreconditionf("check %q of service %q: with address_mode %s it has no address; set another address_mode", c.Name, s.Name, mode)
	case out.Port == 0:
		return Endpoint{}, errdefs.FailedPreconditionf("check %q of service %q has no port: set port in the check or in the service", c.Name, s.Name)
	}
	return out, nil
}

func (p Place) find(mode, label string) (Endpoint, error) {
	switch mode {
	case AddressAuto:
		if p.Driver != nil && p.Driver.AutoAdvertise {
			return p.ofDriver(label)
		}
		return p.ofNode(label)
	case AddressHost:
		return p.ofNode(label)
	case AddressDriver:
		return p.ofDriver(label)
	case AddressAlloc, AddressAllocIPv6:
		return p.ofAlloc(mode, label)
	}
	return Endpoint{}, errdefs.InvalidArgumentf("there is no address_mode %q", mode)
}

// ofNode returns the address and port by which others reach the node.
func (p Place) ofNode(label string) (Endpoint, error) {
	if m, ok := p.mapping(label); ok {
		return Endpoint{cmp.Or(m.HostIP, p.NodeAddress), m.Value}, nil
	}
	port, err := literal(label)
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{p.hostAddress(), port}, nil
}

func (p Place) ofDriver(label string) (Endpoint, error) {
	if p.Driver == nil || p.Driver.IP == "" {
		return Endpoint{}, errdefs.FailedPreconditionf("address_mode is driver, and the driver gave the task no address; remove address_mode, or use a network of the driver")
	}
	if port, ok := p.Driver.PortMap[label]; ok {
		return Endpoint{p.Driver.IP, port}, nil
	}
	port, err := p.inside(label)
	return Endpoint{p.Driver.IP, port}, err
}

func (p Place) ofAlloc(mode, label string) (Endpoint, error) {
	address := ""
	if n := p.Alloc.NetworkStatus; n != nil && mode == AddressAlloc {
		address = cmp.Or(n.Address, n.AddressIPv6)
	} else if n != nil {
		address = n.AddressIPv6
	}
	if address == "" {
		return Endpoint{}, errdefs.FailedPreconditionf("address_mode is %s, and the alloc's network has no such address; it needs a network with mode = \"bridge\" or \"cni/NAME\"", mode)
	}
	port, err := p.inside(label)
	return Endpoint{address, port}, err
}

// inside returns the port on which a task listens in its own network.
func (p Place) inside(label string) (int, error) {
	if m, ok := p.mapping(label); ok {
		if m.To > 0 {
			return m.To, nil
		}
		return m.Value, nil
	}
	return literal(label)
}

// mapping finds a port of the group or of the task by its label.
func (p Place) mapping(label string) (model.AllocatedPortMapping, bool) {
	res := p.Alloc.AllocatedResources
	if res == nil || label == "" {
		return model.AllocatedPortMapping{}, false
	}
	for _, m := range res.Shared.Ports {
		if m.Label == label {
			return m, true
		}
	}
	if t := res.Tasks[p.Task]; t != nil {
		for _, n := range t.Networks {
			for _, port := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
				if port.Label == label {
					return model.AllocatedPortMapping{Label: label, Value: port.Value, To: port.To, HostIP: n.IP}, true
				}
			}
		}
	}
	return model.AllocatedPortMapping{}, false
}

// hostAddress is the node's address as the alloc's networks know it.
func (p Place) hostAddress() string {
	if res := p.Alloc.AllocatedResources; res != nil {
		var networks []*model.NetworkResource
		if t := res.Tasks[p.Task]; t != nil {
			networks = t.Networks
		}
		for _, n := range slices.Concat(res.Shared.Networks, networks) {
			if n.IP != "" {
				return n.IP
			}
		}
		for _, m := range res.Shared.Ports {
			if m.HostIP != "" {
				return m.HostIP
			}
		}
	}
	return p.NodeAddress
}

// literal reads a port that is given as a number; "" is no port.
func literal(label string) (int, error) {
	if label == "" {
		return 0, nil
	}
	port, err := strconv.ParseUint(label, 10, 16)
	if err != nil {
		return 0, errdefs.NotFoundf("the alloc has no port %q", label)
	}
	return int(port), nil
}
