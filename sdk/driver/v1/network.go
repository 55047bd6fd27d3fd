// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/errdefs"
)

// FeatureNetworks: the driver is a Networker.
const FeatureNetworks Feature = "networks"

// Networker is implemented by drivers whose tasks can join only a network namespace that
// the driver made, such as one that belongs to a container or a virtual machine. All
// others join the namespace that the host made: TaskConfig.Network.
//
// A network belongs to an alloc, not to a task or a process: it is made before the first
// task of the alloc starts, all tasks of the alloc join it, and it is destroyed after the
// last task. The host puts interfaces, routes and port mappings into it; the driver makes
// and keeps only the namespace.
type Networker interface {
	// CreateNetwork makes the namespace of an alloc and returns where it is, with Path and
	// Mode NetworkGroup, and with the Labels by which DestroyNetwork finds it. If the alloc
	// has one already, it returns that: the caller repeats a call whose answer it missed,
	// also to another process of the driver. A failed call leaves nothing behind.
	// Unavailable: what the driver needs is away; the caller tries again.
	CreateNetwork(ctx context.Context, req NetworkRequest) (*NetworkIsolation, error)

	// DestroyNetwork removes the namespace of an alloc, and whatever keeps it alive.
	// network is what CreateNetwork returned; it is nil if the caller missed the answer,
	// and the driver then looks for what belongs to the alloc. It is not an error if there
	// is nothing. FailedPrecondition: a task still uses it.
	DestroyNetwork(ctx context.Context, allocID string, network *NetworkIsolation) error
}

// NetworkRequest asks for the network namespace of an alloc.
type NetworkRequest struct {
	AllocID string
	// Hostname is the name of the host that tasks in the network see; empty means that the
	// driver chooses.
	Hostname string
}

func (s *server) networker(name string) (Networker, error) {
	d, err := s.drivers.Get(name)
	if err != nil {
		return nil, err
	}
	n, ok := d.(Networker)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("driver %q does not make networks", name))
	}
	return n, nil
}

func (s *server) CreateNetwork(ctx context.Context, req *driverv1.CreateNetworkRequest) (*driverv1.CreateNetworkResponse, error) {
	n, err := s.networker(req.GetDriver())
	if err != nil {
		return nil, err
	}
	network, err := n.CreateNetwork(ctx, NetworkRequest{AllocID: req.GetAllocId(), Hostname: req.GetHostname()})
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	if err := networkDefect(req.GetDriver(), network); err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	return &driverv1.CreateNetworkResponse{Network: networkToPB(network)}, nil
}

// networkDefect says what is wrong with the network that a driver returned.
func networkDefect(driver string, n *NetworkIsolation) error {
	if n == nil || n.Path == "" {
		return errdefs.Internalf("driver %q made a network and did not return its path; the plugin is defective", driver)
	}
	return nil
}

func (s *server) DestroyNetwork(ctx context.Context, req *driverv1.DestroyNetworkRequest) (*driverv1.DestroyNetworkResponse, error) {
	n, err := s.networker(req.GetDriver())
	if err != nil {
		return nil, err
	}
	err = n.DestroyNetwork(ctx, req.GetAllocId(), networkFromPB(req.GetNetwork()))
	return &driverv1.DestroyNetworkResponse{}, errdefs.ToGRPC(err)
}

// CreateNetwork implements Networker.
func (c *client) CreateNetwork(ctx context.Context, req NetworkRequest) (*NetworkIsolation, error) {
	resp, err := c.rpc.CreateNetwork(ctx, &driverv1.CreateNetworkRequest{Driver: c.info.Name, AllocId: req.AllocID, Hostname: req.Hostname})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	network := networkFromPB(resp.GetNetwork())
	if err := networkDefect(c.info.Name, network); err != nil {
		return nil, err
	}
	return network, nil
}

// DestroyNetwork implements Networker.
func (c *client) DestroyNetwork(ctx context.Context, allocID string, network *NetworkIsolation) error {
	_, err := c.rpc.DestroyNetwork(ctx, &driverv1.DestroyNetworkRequest{Driver: c.info.Name, AllocId: allocID, Network: networkToPB(network)})
	return errdefs.FromGRPC(err)
}

func networkToPB(n *NetworkIsolation) *driverv1.NetworkIsolation {
	if n == nil {
		return nil
	}
	return &driverv1.NetworkIsolation{Mode: string(n.Mode), Path: n.Path, Labels: n.Labels, Hostname: n.Hostname, Address: n.Address}
}

func networkFromPB(n *driverv1.NetworkIsolation) *NetworkIsolation {
	if n == nil {
		return nil
	}
	return &NetworkIsolation{Mode: NetworkMode(n.GetMode()), Path: n.GetPath(), Labels: n.GetLabels(), Hostname: n.GetHostname(), Address: n.GetAddress()}
}
