// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/drover-project/drover/sdk/internal/pb/device/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
)

// Connect returns the device plugins of the process at the other end of conn. Only the
// host calls it.
func Connect(ctx context.Context, conn grpc.ClientConnInterface) ([]Device, error) {
	rpc := pb.NewDeviceClient(conn)
	resp, err := rpc.Plugins(ctx, &pb.PluginsRequest{})
	return served.Clients(resp.GetPlugins(), err, infoFromPB, func(i Info) Device { return &client{rpc: rpc, info: i} })
}

// client is a device plugin in another process.
type client struct {
	rpc  pb.DeviceClient
	info Info
}

func (c *client) Info() Info { return c.info }

func (c *client) SetConfig(ctx context.Context, config []byte) error {
	_, err := c.rpc.SetConfig(ctx, &pb.SetConfigRequest{Plugin: c.info.Name, Config: config})
	return errdefs.FromGRPC(err)
}

func (c *client) Fingerprint(ctx context.Context) (<-chan Fingerprint, error) {
	s, err := c.rpc.Fingerprint(ctx, &pb.FingerprintRequest{Plugin: c.info.Name})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return stream.Receive(ctx, s, fingerprintFromPB)
}

func (c *client) Reserve(ctx context.Context, ids []string) (*Reservation, error) {
	resp, err := c.rpc.Reserve(ctx, &pb.ReserveRequest{Plugin: c.info.Name, Ids: ids})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return reservationFromPB(resp), nil
}

func (c *client) ReserveForTask(ctx context.Context, r Request) (*Reservation, error) {
	resp, err := c.rpc.Reserve(ctx, &pb.ReserveRequest{Plugin: c.info.Name, Ids: r.IDs, Holder: holderToPB(r.Holder), Config: r.Config})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return reservationFromPB(resp), nil
}

func (c *client) Release(ctx context.Context, h Holder, ids []string) error {
	_, err := c.rpc.Release(ctx, &pb.ReleaseRequest{Plugin: c.info.Name, Ids: ids, Holder: holderToPB(h)})
	return errdefs.FromGRPC(err)
}

func (c *client) Stats(ctx context.Context, interval time.Duration) (<-chan []GroupStats, error) {
	s, err := c.rpc.Stats(ctx, &pb.StatsRequest{Plugin: c.info.Name, Interval: durationpb.New(interval)})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return stream.Receive(ctx, s, statsFromPB)
}
