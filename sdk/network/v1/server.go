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
	"github.com/drover-project/drover/sdk/plugin"
)

// Kind is the name and version of this contract.
var Kind = plugin.Kind{Name: "network", Version: 1}

// Service prepares network plugins for plugin.Serve. Their names must differ.
func Service(networks ...Network) plugin.Service {
	return plugin.Service{Kind: Kind, Guests: plugin.Guests(networks), Register: func(r grpc.ServiceRegistrar) {
		pb.RegisterNetworkServer(r, &server{networks: served.New("this process has no network plugin", networks, func(n Network) string { return n.Info().Name })})
	}}
}

// server serves network plugins to the host.
type server struct {
	pb.UnimplementedNetworkServer
	networks *served.Plugins[Network]
}

func (s *server) Plugins(context.Context, *pb.PluginsRequest) (*pb.PluginsResponse, error) {
	infos, err := served.Infos(s.networks, infoToPB)
	return &pb.PluginsResponse{Plugins: infos}, err
}

func (s *server) SetConfig(ctx context.Context, req *pb.SetConfigRequest) (*pb.SetConfigResponse, error) {
	n, err := s.networks.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	return &pb.SetConfigResponse{}, errdefs.ToGRPC(n.SetConfig(ctx, req.GetConfig()))
}

func (s *server) Fingerprint(req *pb.FingerprintRequest, out grpc.ServerStreamingServer[pb.FingerprintResponse]) error {
	n, err := s.networks.Get(req.GetPlugin())
	if err != nil {
		return err
	}
	return stream.Serve(out, n.Fingerprint, fingerprintToPB)
}

func (s *server) Create(ctx context.Context, req *pb.CreateRequest) (*pb.CreateResponse, error) {
	n, err := s.networks.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	if req.GetAllocId() == "" {
		return nil, errdefs.ToGRPC(errdefs.InvalidArgumentf("a network needs the id of its alloc"))
	}
	a, err := n.Create(ctx, requestFromPB(req))
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	return &pb.CreateResponse{Attachment: attachmentToPB(a)}, nil
}

func (s *server) Inspect(ctx context.Context, req *pb.InspectRequest) (*pb.InspectResponse, error) {
	n, err := s.networks.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	a, err := n.Inspect(ctx, req.GetAllocId())
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	return &pb.InspectResponse{Attachment: attachmentToPB(a)}, nil
}

func (s *server) Destroy(ctx context.Context, req *pb.DestroyRequest) (*pb.DestroyResponse, error) {
	n, err := s.networks.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	return &pb.DestroyResponse{}, errdefs.ToGRPC(n.Destroy(ctx, req.GetAllocId()))
}

func (s *server) List(ctx context.Context, req *pb.ListRequest) (*pb.ListResponse, error) {
	n, err := s.networks.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	ids, err := n.List(ctx)
	return &pb.ListResponse{AllocIds: ids}, errdefs.ToGRPC(err)
}
