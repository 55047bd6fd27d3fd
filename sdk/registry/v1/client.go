// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"context"
	"time"

	"google.golang.org/grpc"

	pb "github.com/drover-project/drover/sdk/internal/pb/registry/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
)

// Connect returns the registries of the process at the other end of conn. Only the host
// calls it.
func Connect(ctx context.Context, conn grpc.ClientConnInterface) ([]Registry, error) {
	rpc := pb.NewRegistryClient(conn)
	resp, err := rpc.Plugins(ctx, &pb.PluginsRequest{})
	return served.Clients(resp.GetPlugins(), err, infoFromPB, func(i Info) Registry { return &client{rpc: rpc, info: i} })
}

// client is a registry in another process.
type client struct {
	rpc  pb.RegistryClient
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

func (c *client) Sync(ctx context.Context, r SyncRequest) (*SyncResult, error) {
	resp, err := c.rpc.Sync(ctx, &pb.SyncRequest{Plugin: c.info.Name, Owner: r.Owner, Cluster: r.Cluster, Services: each(r.Services, registrationToPB), Credentials: credentialsToPB(r.Credentials)})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return &SyncResult{Refusals: each(resp.GetRefusals(), func(m *pb.Refusal) Refusal {
		return Refusal{ID: m.GetId(), Reason: m.GetReason(), Login: m.GetLogin()}
	})}, nil
}

func (c *client) Query(ctx context.Context, q Query) (*Answer, error) {
	resp, err := c.rpc.Query(ctx, queryToPB(c.info.Name, q))
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return answerFromPB(resp), nil
}

func (c *client) Login(ctx context.Context, r LoginRequest) (*Login, error) {
	resp, err := c.rpc.Login(ctx, &pb.LoginRequest{Plugin: c.info.Name, Cluster: r.Cluster, For: string(r.For), Token: r.Token, Meta: r.Meta})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return &Login{Credential: credentialFromPB(resp.GetCredential()), TTL: time.Duration(resp.GetTtlNs())}, nil
}

func (c *client) Logout(ctx context.Context, cluster string, cred Credential) error {
	_, err := c.rpc.Logout(ctx, &pb.LogoutRequest{Plugin: c.info.Name, Cluster: cluster, Credential: credentialToPB(cred)})
	return errdefs.FromGRPC(err)
}
