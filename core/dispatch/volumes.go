// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Volumes gives nodes the volumes of type csi that their allocs need, while this server
// leads.
type Volumes func(ctx context.Context, nodeID string, q rpc.VolumeQuery) (rpc.VolumeGrant, error)

// volumeQueryBounds are how large a question for a volume may be.
var volumeQueryBounds = model.Bounds{Text: 256, Total: 1 << 10}

// ClaimVolume implements rpc.Servers.
func (d *Dispatcher) ClaimVolume(ctx context.Context, id rpc.Identity, q rpc.VolumeQuery) (rpc.VolumeGrant, error) {
	if err := volumeQueryBounds.Check("VolumeQuery", q); err != nil {
		return rpc.VolumeGrant{}, err
	}
	if _, err := d.known(d.abreast(ctx, id, 0), id); err != nil {
		return rpc.VolumeGrant{}, err
	}
	return d.leader.ClaimVolume(ctx, id, q)
}

// ClaimVolume implements Leader.
func (l leading) ClaimVolume(ctx context.Context, id rpc.Identity, q rpc.VolumeQuery) (rpc.VolumeGrant, error) {
	if l.d.cfg.Volumes == nil {
		return rpc.VolumeGrant{}, errdefs.Unimplementedf("these servers have no volumes of type csi")
	}
	if _, err := identify(l.d.cfg.Store.View(), id); err != nil {
		return rpc.VolumeGrant{}, err
	}
	return l.d.cfg.Volumes(ctx, id.NodeID, q)
}
