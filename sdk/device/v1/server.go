// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"

	"google.golang.org/grpc"

	pb "github.com/drover-project/drover/sdk/internal/pb/device/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
	"github.com/drover-project/drover/sdk/plugin"
)

// Kind is the name and version of this contract.
var Kind = plugin.Kind{Name: "device", Version: 1}

// Service prepares device plugins for plugin.Serve. Their names must differ.
func Service(devices ...Device) plugin.Service {
	return plugin.Service{Kind: Kind, Guests: plugin.Guests(devices), Register: func(r grpc.ServiceRegistrar) {
		pb.RegisterDeviceServer(r, &server{devices: served.New("this process has no device plugin", devices, func(d Device) string { return d.Info().Name })})
	}}
}

// server serves device plugins to the host.
type server struct {
	pb.UnimplementedDeviceServer
	devices *served.Plugins[Device]
}

func (s *server) Plugins(context.Context, *pb.PluginsRequest) (*pb.PluginsResponse, error) {
	infos, err := served.Infos(s.devices, infoToPB)
	return &pb.PluginsResponse{Plugins: infos}, err
}

func (s *server) SetConfig(ctx context.Context, req *pb.SetConfigRequest) (*pb.SetConfigResponse, error) {
	d, err := s.devices.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	return &pb.SetConfigResponse{}, errdefs.ToGRPC(d.SetConfig(ctx, req.GetConfig()))
}

func (s *server) Fingerprint(req *pb.FingerprintRequest, out grpc.ServerStreamingServer[pb.FingerprintResponse]) error {
	d, err := s.devices.Get(req.GetPlugin())
	if err != nil {
		return err
	}
	return stream.Serve(out, d.Fingerprint, fingerprintToPB)
}

func (s *server) Reserve(ctx context.Context, req *pb.ReserveRequest) (*pb.ReserveResponse, error) {
	d, err := s.devices.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	r, err := reserve(ctx, d, req)
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	if r == nil {
		return nil, errdefs.ToGRPC(errdefs.Internalf("device plugin %q answered a Reserve with nothing; the plugin is defective", req.GetPlugin()))
	}
	return reservationToPB(r), nil
}

// reserve calls ReserveForTask if the host names the holder, and otherwise Reserve: hosts
// of the first release name none.
func reserve(ctx context.Context, d Device, req *pb.ReserveRequest) (*Reservation, error) {
	t, ok := d.(TaskReserver)
	if !ok || req.GetHolder() == nil {
		return d.Reserve(ctx, req.GetIds())
	}
	return t.ReserveForTask(ctx, Request{Holder: holderFromPB(req.GetHolder()), IDs: req.GetIds(), Config: req.GetConfig()})
}

func (s *server) Release(ctx context.Context, req *pb.ReleaseRequest) (*pb.ReleaseResponse, error) {
	d, err := s.devices.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	r, ok := d.(Releaser)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("device plugin %q does not release devices and does not announce the feature %q", req.GetPlugin(), FeatureRelease))
	}
	return &pb.ReleaseResponse{}, errdefs.ToGRPC(r.Release(ctx, holderFromPB(req.GetHolder()), req.GetIds()))
}

func (s *server) Stats(req *pb.StatsRequest, out grpc.ServerStreamingServer[pb.StatsResponse]) error {
	d, err := s.devices.Get(req.GetPlugin())
	if err != nil {
		return err
	}
	return stream.Serve(out, func(ctx context.Context) (<-chan []GroupStats, error) {
		return d.Stats(ctx, req.GetInterval().AsDuration())
	}, statsToPB)
}
