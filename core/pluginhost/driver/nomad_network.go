// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"strings"

	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Announced returns the optional abilities of the plugin, which its protocol states as
// capabilities. The Go type has all of them.
func (d *nomadDriver) Announced() []Feature { return d.info.Features }

// nomadFeatures are the optional abilities of a driver with these capabilities.
func nomadFeatures(c *pb.DriverCapabilities) []Feature {
	if c.GetMustCreateNetwork() {
		return []Feature{FeatureNetworks}
	}
	return nil
}

// CreateNetwork implements Networker. Whether a repeated call returns the first network
// depends on the plugin: the protocol does not define it.
func (d *nomadDriver) CreateNetwork(ctx context.Context, req NetworkRequest) (*NetworkIsolation, error) {
	resp, err := d.rpc.CreateNetwork(ctx, &pb.CreateNetworkRequest{AllocId: req.AllocID, Hostname: req.Hostname})
	if err != nil {
		return nil, nomadError(err)
	}
	n := resp.GetIsolationSpec()
	if n.GetPath() == "" {
		return nil, errdefs.Internalf("driver %q made a network and did not return its path; the plugin is defective", d.info.Name)
	}
	return &NetworkIsolation{
		Mode: NetworkMode(strings.ToLower(n.GetMode().String())), Path: n.GetPath(), Labels: n.GetLabels(),
		Hostname: n.GetHostsConfig().GetHostname(), Address: n.GetHostsConfig().GetAddress(),
	}, nil
}

// DestroyNetwork implements Networker. A plugin of this protocol needs its own description
// of the network to remove it. If the answer of CreateNetwork was lost, the call is
// repeated first to get the description.
func (d *nomadDriver) DestroyNetwork(ctx context.Context, allocID string, network *NetworkIsolation) error {
	if network == nil {
		found, err := d.CreateNetwork(ctx, NetworkRequest{AllocID: allocID})
		if err != nil {
			return err
		}
		network = found
	}
	_, err := d.rpc.DestroyNetwork(ctx, &pb.DestroyNetworkRequest{AllocId: allocID, IsolationSpec: nomadNetwork(network)})
	return nomadError(err)
}

func nomadNetwork(n *NetworkIsolation) *pb.NetworkIsolationSpec {
	if n == nil {
		return nil
	}
	mode := pb.NetworkIsolationSpec_NetworkIsolationMode_value[strings.ToUpper(string(n.Mode))]
	return &pb.NetworkIsolationSpec{
		Mode: pb.NetworkIsolationSpec_NetworkIsolationMode(mode), Path: n.Path, Labels: n.Labels,
		HostsConfig: &pb.HostsConfig{Hostname: n.Hostname, Address: n.Address},
	}
}
