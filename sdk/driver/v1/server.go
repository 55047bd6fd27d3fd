// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"

	"google.golang.org/grpc"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
	"github.com/drover-project/drover/sdk/plugin"
)

// Kind is the name and version of this contract.
var Kind = plugin.Kind{Name: "driver", Version: 1}

// Service prepares drivers for plugin.Serve. Their names must differ.
func Service(drivers ...Driver) plugin.Service {
	return plugin.Service{Kind: Kind, Guests: plugin.Guests(drivers), Register: func(r grpc.ServiceRegistrar) {
		driverv1.RegisterDriverServer(r, &server{drivers: served.New("this plugin has no driver", drivers, func(d Driver) string { return d.Info().Name })})
	}}
}

// server serves drivers to the host.
type server struct {
	driverv1.UnimplementedDriverServer
	drivers *served.Plugins[Driver]
}

func (s *server) Drivers(context.Context, *driverv1.DriversRequest) (*driverv1.DriversResponse, error) {
	infos, err := served.Infos(s.drivers, infoToPB)
	return &driverv1.DriversResponse{Drivers: infos}, err
}

func (s *server) SetConfig(ctx context.Context, req *driverv1.SetConfigRequest) (*driverv1.SetConfigResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	return &driverv1.SetConfigResponse{}, errdefs.ToGRPC(d.SetConfig(ctx, req.GetConfig()))
}

func (s *server) Fingerprint(req *driverv1.FingerprintRequest, out grpc.ServerStreamingServer[driverv1.FingerprintResponse]) error {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return err
	}
	return stream.Serve(out, d.Fingerprint, func(f Fingerprint) *driverv1.FingerprintResponse {
		return &driverv1.FingerprintResponse{Attributes: f.Attributes, Health: string(f.Health), HealthDescription: f.HealthDescription}
	})
}

func (s *server) StartTask(ctx context.Context, req *driverv1.StartTaskRequest) (*driverv1.StartTaskResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	handle, override, err := d.StartTask(ctx, taskFromPB(req.GetTask()))
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	if handle == nil {
		return nil, errdefs.ToGRPC(withoutHandle(req.GetDriver(), req.GetTask().GetId()))
	}
	return &driverv1.StartTaskResponse{Handle: handleToPB(handle), NetworkOverride: overrideToPB(override)}, nil
}

func (s *server) RecoverTask(ctx context.Context, req *driverv1.RecoverTaskRequest) (*driverv1.RecoverTaskResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	return &driverv1.RecoverTaskResponse{}, errdefs.ToGRPC(d.RecoverTask(ctx, handleFromPB(req.GetHandle())))
}

func (s *server) WaitTask(ctx context.Context, req *driverv1.WaitTaskRequest) (*driverv1.WaitTaskResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	result, err := d.WaitTask(ctx, req.GetTaskId())
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	return &driverv1.WaitTaskResponse{Result: exitToPB(result)}, nil
}

func (s *server) StopTask(ctx context.Context, req *driverv1.StopTaskRequest) (*driverv1.StopTaskResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	err = d.StopTask(ctx, req.GetTaskId(), req.GetTimeout().AsDuration(), req.GetSignal())
	return &driverv1.StopTaskResponse{}, errdefs.ToGRPC(err)
}

func (s *server) DestroyTask(ctx context.Context, req *driverv1.DestroyTaskRequest) (*driverv1.DestroyTaskResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	task := TaskRef{ID: req.GetTaskId(), AllocDir: req.GetAllocDir(), TaskDir: req.GetTaskDir()}
	return &driverv1.DestroyTaskResponse{}, errdefs.ToGRPC(d.DestroyTask(ctx, task, req.GetForce()))
}

func (s *server) InspectTask(ctx context.Context, req *driverv1.InspectTaskRequest) (*driverv1.InspectTaskResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	status, err := d.InspectTask(ctx, req.GetTaskId())
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	if status == nil {
		return nil, errdefs.ToGRPC(errdefs.Internalf("driver %q answered an InspectTask with nothing; the plugin is defective", req.GetDriver()))
	}
	return &driverv1.InspectTaskResponse{Status: statusToPB(status)}, nil
}

func (s *server) ListTasks(ctx context.Context, req *driverv1.ListTasksRequest) (*driverv1.ListTasksResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	l, ok := d.(Lister)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("driver %q does not list its tasks", req.GetDriver()))
	}
	list, err := l.ListTasks(ctx)
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	out := &driverv1.ListTasksResponse{}
	for _, h := range list {
		out.Tasks = append(out.Tasks, handleToPB(h))
	}
	return out, nil
}

func (s *server) TaskStats(req *driverv1.TaskStatsRequest, out grpc.ServerStreamingServer[driverv1.TaskStatsResponse]) error {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return err
	}
	interval := req.GetInterval().AsDuration()
	if interval <= 0 {
		return errdefs.ToGRPC(errdefs.InvalidArgumentf("stats interval %s: must be more than zero", interval))
	}
	return stream.Serve(out, func(ctx context.Context) (<-chan []TaskStats, error) {
		return d.TaskStats(ctx, interval)
	}, statsToPB)
}

func (s *server) SignalTask(ctx context.Context, req *driverv1.SignalTaskRequest) (*driverv1.SignalTaskResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	return &driverv1.SignalTaskResponse{}, errdefs.ToGRPC(d.SignalTask(ctx, req.GetTaskId(), req.GetSignal()))
}

func (s *server) TaskEvents(req *driverv1.TaskEventsRequest, out grpc.ServerStreamingServer[driverv1.TaskEventsResponse]) error {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return err
	}
	convert := withoutProgress
	if req.GetProgress() {
		convert = eventToPB
	}
	return stream.Serve(out, d.TaskEvents, convert)
}
