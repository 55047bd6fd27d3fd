// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"context"

	"google.golang.org/grpc"

	pb "github.com/drover-project/drover/sdk/internal/pb/stats/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
	"github.com/drover-project/drover/sdk/plugin"
)

// Kind is the name and version of this contract.
var Kind = plugin.Kind{Name: "stats", Version: 1}

// Service prepares collectors for plugin.Serve. Their names must differ.
func Service(collectors ...Collector) plugin.Service {
	return plugin.Service{Kind: Kind, Guests: plugin.Guests(collectors), Register: func(r grpc.ServiceRegistrar) {
		pb.RegisterStatsServer(r, &server{collectors: served.New("this process has no collector", collectors, func(c Collector) string { return c.Info().Name })})
	}}
}

// server serves collectors to the host.
type server struct {
	pb.UnimplementedStatsServer
	collectors *served.Plugins[Collector]
}

func (s *server) Collectors(context.Context, *pb.CollectorsRequest) (*pb.CollectorsResponse, error) {
	infos, err := served.Infos(s.collectors, infoToPB)
	return &pb.CollectorsResponse{Collectors: infos}, err
}

func (s *server) SetConfig(ctx context.Context, req *pb.SetConfigRequest) (*pb.SetConfigResponse, error) {
	c, err := s.collectors.Get(req.GetCollector())
	if err != nil {
		return nil, err
	}
	return &pb.SetConfigResponse{}, errdefs.ToGRPC(c.SetConfig(ctx, req.GetConfig()))
}

func (s *server) Collect(req *pb.CollectRequest, out grpc.ServerStreamingServer[pb.Sample]) error {
	c, err := s.collectors.Get(req.GetCollector())
	if err != nil {
		return err
	}
	interval := req.GetInterval().AsDuration()
	if interval <= 0 {
		return errdefs.ToGRPC(errdefs.InvalidArgumentf("an interval of %s cannot be kept; it must be above zero", interval))
	}
	convert := sampleToPB
	if req.GetLabelSets() {
		convert = (&labelsOut{}).sample
	}
	return stream.Serve(out, func(ctx context.Context) (<-chan Sample, error) { return c.Collect(ctx, interval) }, convert)
}

func (s *server) SetTasks(ctx context.Context, req *pb.SetTasksRequest) (*pb.SetTasksResponse, error) {
	c, err := s.collectors.Get(req.GetCollector())
	if err != nil {
		return nil, err
	}
	t, ok := c.(TaskCollector)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("collector %q does not measure tasks and does not announce the feature %q", req.GetCollector(), FeatureTasks))
	}
	return &pb.SetTasksResponse{}, errdefs.ToGRPC(t.SetTasks(ctx, each(req.GetTasks(), taskFromPB)))
}
