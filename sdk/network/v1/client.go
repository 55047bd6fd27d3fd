// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"context"

	"google.golang.org/grpc"

	pb "github.com/drover-project/drover/sdk/internal/pb/network/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
)

// Connect returns the network plugins of the process at the other end of conn. Only the
// host calls it.
func Connect(ctx context.Context, conn grpc.ClientConnInterface) ([]Network, error) {
	rpc := pb.NewNetworkClient(conn)
	resp, err := rpc.Plugins(ctx, &pb.PluginsRequest{})
	return served.Clients(resp.GetPlugins(), err, infoFromPB, func(i Info) Network { return &client{rpc: rpc, info: i} })
}

// client is a network plugin in another process.
type client struct {
	rpc  pb.NetworkClient
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

func (c *client) Create(ctx context.Context, r Request) (*Attachment, error) {
	resp, err := c.rpc.Create(ctx, requestToPB(c.info.Name, r))
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return c.attachment(resp.GetAttachment())
}

func (c *client) Inspect(ctx context.Context, allocID string) (*Attachment, error) {
	resp, err := c.rpc.Inspect(ctx, &pb.InspectRequest{Plugin: c.info.Name, AllocId: allocID})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return c.attachment(resp.GetAttachment())
}

// attachment converts the answer of a plugin. An empty answer is an error.
func (c *client) attachment(m *pb.Attachment) (*Attachment, error) {
	if m == nil {
		return nil, errdefs.Internalf("network plugin %q answered without a network; the plugin is defective", c.info.Name)
	}
	return attachmentFromPB(m), nil
}

func (c *client) Destroy(ctx context.Context, allocID string) error {
	_, err := c.rpc.Destroy(ctx, &pb.DestroyRequest{Plugin: c.info.Name, AllocId: allocID})
	return errdefs.FromGRPC(err)
}

func (c *client) List(ctx context.Context) ([]string, error) {
	resp, err := c.rpc.List(ctx, &pb.ListRequest{Plugin: c.info.Name})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return resp.GetAllocIds(), nil
}
