// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/drover-project/drover/sdk/internal/pb/stats/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
)

// Connect returns the collectors of the process at the other end of conn. Only the
// host calls it.
func Connect(ctx context.Context, conn grpc.ClientConnInterface) ([]Collector, error) {
	rpc := pb.NewStatsClient(conn)
	resp, err := rpc.Collectors(ctx, &pb.CollectorsRequest{})
	return served.Clients(resp.GetCollectors(), err, infoFromPB, func(i Info) Collector { return &client{rpc: rpc, info: i} })
}

// client is a collector in another process.
type client struct {
	rpc  pb.StatsClient
	info Info
}

func (c *client) Info() Info { return c.info }

func (c *client) SetConfig(ctx context.Context, config []byte) error {
	_, err := c.rpc.SetConfig(ctx, &pb.SetConfigRequest{Collector: c.info.Name, Config: config})
	return errdefs.FromGRPC(err)
}

func (c *client) Collect(ctx context.Context, interval time.Duration) (<-chan Sample, error) {
	s, err := c.rpc.Collect(ctx, &pb.CollectRequest{Collector: c.info.Name, Interval: durationpb.New(interval), LabelSets: true})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return stream.Receive(ctx, s, (&labelsIn{}).sample)
}

func (c *client) SetTasks(ctx context.Context, tasks []Task) error {
	_, err := c.rpc.SetTasks(ctx, &pb.SetTasksRequest{Collector: c.info.Name, Tasks: each(tasks, taskToPB)})
	return errdefs.FromGRPC(err)
}
