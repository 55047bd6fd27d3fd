// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"context"
	"strings"

	"google.golang.org/grpc"

	pb "github.com/drover-project/drover/sdk/internal/pb/stats/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/stream"
	"github.com/drover-project/drover/sdk/plugin"
)

// Kind is the name and version of this contract.
var Kind = plugin.Kind{Name: "stats", Version: 1}

// Service prepares collectors for plugin.Serve. Their names must differ.
func Service(collectors ...Collector) plugin.Service {
	return plugin.Service{Kind: Kind, Guests: plugin.Guests(collectors), Register: func(r grpc.ServiceRegistrar) {
		s := &server{collectors: make(map[string]Collector, len(collectors))}
		for _, c := range collectors {
			name := c.Info().Name
			s.order = append(s.order, name)
			s.collectors[name] = c
		}
		pb.RegisterStatsServer(r, s)
	}}
}

// server serves collectors to the host.
type server struct {
	pb.UnimplementedStatsServer
	collectors map[string]Collector
	order      []string
}

func (s *server) collector(name string) (Collector, error) {
	c, ok := s.collectors[name]
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.NotFoundf("this process has no collector %q; it has %s", name, strings.Join(s.order, ", ")))
	}
	return c, nil
}

func (s *server) Collectors(context.Context, *pb.CollectorsRequest) (*pb.CollectorsResponse, error) {
	out := &pb.CollectorsResponse{}
	for _, name := range s.order {
		info, err := infoToPB(s.collectors[name])
		if err != nil {
			return nil, errdefs.ToGRPC(err)
		}
		out.Collectors = append(out.Collectors, info)
	}
	return out, nil
}

func (s *server) SetConfig(ctx context.Context, req *pb.SetConfigRequest) (*pb.SetConfigResponse, error) {
	c, err := s.collector(req.GetCollector())
	if err != nil {
		return nil, err
	}
	return &pb.SetConfigResponse{}, errdefs.ToGRPC(c.SetConfig(ctx, req.GetConfig()))
}

func (s *server) Collect(req *pb.CollectRequest, out grpc.ServerStreamingServer[pb.Sample]) error {
	c, err := s.collector(req.GetCollector())
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
	c, err := s.collector(req.GetCollector())
	if err != nil {
		return nil, err
	}
	t, ok := c.(TaskCollector)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("collector %q does not measure tasks and does not announce the feature %q", req.GetCollector(), FeatureTasks))
	}
	return &pb.SetTasksResponse{}, errdefs.ToGRPC(t.SetTasks(ctx, each(req.GetTasks(), taskFromPB)))
}
