// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

// Command oldplugin is a driver that was built against an early form of driver v1
// and shares no code with the SDK of today: it lacks what the contract has got
// since. Its tasks are shells that outlive it.
package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/drover-project/drover/core/pluginhost/testdata/oldplugin/driverpb"
	"github.com/drover-project/drover/core/pluginhost/testdata/oldplugin/pluginpb"
)

func main() {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: "DROVER_PLUGIN_COOKIE", MagicCookieValue: "6b8e0f3d7a2c4e51b9d4c7f1a0e63528"},
		VersionedPlugins: map[int]goplugin.PluginSet{1: {"drover": &served{}}},
		GRPCServer:       goplugin.DefaultGRPCServer,
	})
}

type served struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (*served) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pluginpb.RegisterPluginServer(s, info{})
	pb.RegisterDriverServer(s, &driver{pids: map[string]int{}})
	return nil
}

func (*served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

type info struct {
	pluginpb.UnimplementedPluginServer
}

func (info) Info(context.Context, *pluginpb.InfoRequest) (*pluginpb.InfoResponse, error) {
	return &pluginpb.InfoResponse{Name: "oldplugin", Version: "0.0.1", Kinds: []*pluginpb.Kind{{Name: "driver", Version: 1}}}, nil
}

type driver struct {
	pb.UnimplementedDriverServer
	mu   sync.Mutex
	pids map[string]int
}

func (d *driver) Drivers(context.Context, *pb.DriversRequest) (*pb.DriversResponse, error) {
	return &pb.DriversResponse{Drivers: []*pb.Info{{
		Name: "old", Capabilities: &pb.Capabilities{FsIsolation: "none"},
		TaskConfigSchema: []byte(`{"attributes":[{"name":"script","type":"string","required":true}]}`),
	}}}, nil
}

func (d *driver) SetConfig(context.Context, *pb.SetConfigRequest) (*pb.SetConfigResponse, error) {
	return &pb.SetConfigResponse{}, nil
}

func (d *driver) Fingerprint(_ *pb.FingerprintRequest, s grpc.ServerStreamingServer[pb.FingerprintResponse]) error {
	if err := s.SendHeader(metadata.Pairs("drover-stream", "open")); err != nil {
		return err
	}
	if err := s.Send(&pb.FingerprintResponse{Health: "healthy", Attributes: map[string]string{"driver.old": "1"}}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func (d *driver) StartTask(_ context.Context, r *pb.StartTaskRequest) (*pb.StartTaskResponse, error) {
	var config struct{ Script string }
	if err := json.Unmarshal(r.GetTask().GetDriverConfig(), &config); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	cmd := exec.Command("/bin/sh", "-c", config.Script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	go func() { _ = cmd.Wait() }() // reaps it
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pids[r.GetTask().GetId()] = cmd.Process.Pid
	return &pb.StartTaskResponse{Handle: &pb.Handle{TaskId: r.GetTask().GetId(), Version: 1, State: []byte(strconv.Itoa(cmd.Process.Pid))}}, nil
}

func (d *driver) RecoverTask(_ context.Context, r *pb.RecoverTaskRequest) (*pb.RecoverTaskResponse, error) {
	pid, err := strconv.Atoi(string(r.GetHandle().GetState()))
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pids[r.GetHandle().GetTaskId()] = pid
	return &pb.RecoverTaskResponse{}, nil
}

func (d *driver) find(id string) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if pid := d.pids[id]; pid != 0 {
		return pid, nil
	}
	return 0, status.Error(codes.NotFound, "no task "+id)
}

func runs(pid int) bool { return syscall.Kill(pid, 0) == nil }

func (d *driver) WaitTask(ctx context.Context, r *pb.WaitTaskRequest) (*pb.WaitTaskResponse, error) {
	pid, err := d.find(r.GetTaskId())
	for err == nil && runs(pid) {
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return &pb.WaitTaskResponse{Result: &pb.ExitResult{}}, err
}

func (d *driver) StopTask(ctx context.Context, r *pb.StopTaskRequest) (*pb.StopTaskResponse, error) {
	pid, err := d.find(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL) // an error means that it has ended
	_, err = d.WaitTask(ctx, &pb.WaitTaskRequest{TaskId: r.GetTaskId()})
	return &pb.StopTaskResponse{}, err
}

func (d *driver) DestroyTask(_ context.Context, r *pb.DestroyTaskRequest) (*pb.DestroyTaskResponse, error) {
	if pid, err := d.find(r.GetTaskId()); err == nil && r.GetForce() {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // as above
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pids, r.GetTaskId())
	return &pb.DestroyTaskResponse{}, nil
}

func (d *driver) InspectTask(_ context.Context, r *pb.InspectTaskRequest) (*pb.InspectTaskResponse, error) {
	pid, err := d.find(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	state := "exited"
	if runs(pid) {
		state = "running"
	}
	return &pb.InspectTaskResponse{Status: &pb.TaskStatus{Id: r.GetTaskId(), State: state}}, nil
}
